/**
 * Knows who has an address: pods of the cluster, and endpoints of this node. Sources see to it that two pods do not claim one address; where
 * they do, one is chosen by name, so that the answer does not depend on the order of events.
 */
import { type Address, formatAddress } from "../lib/addresses/address.ts";
import type { LocalEndpoint, PeerPod } from "./model.ts";
import { compareText } from "./rules.ts";

/** A pod as policies see it. */
export type OwnerPod = Pick<PeerPod, "namespace" | "labels" | "ports">;

export interface Owner {
  /** "namespace/name" of the pod, or the host end's name. */
  readonly workload: string;
  /** Name of the host end of an endpoint of this node. */
  readonly hostInterface: string | undefined;
  readonly addresses: readonly Address[];
  readonly pod: OwnerPod | undefined;
}

export class Owners {
  readonly #byAddress = new Map<string, readonly Owner[]>();
  readonly #peers = new Map<string, Owner>();
  readonly #endpoints = new Map<string, Owner>();

  /** @returns the addresses whose owner may have changed, as text */
  setPeer(key: string, pod: PeerPod | undefined): readonly string[] {
    const owner = pod && { workload: key, hostInterface: undefined, addresses: pod.addresses, pod };
    return this.#replace(this.#peers, key, owner);
  }

  /** @returns the addresses whose owner may have changed, as text */
  setEndpoint(hostInterface: string, endpoint: LocalEndpoint | undefined): readonly string[] {
    return this.#replace(this.#endpoints, hostInterface, endpoint && ownerOf(hostInterface, endpoint));
  }

  /** The pod of an address. What this node has attached itself counts more than what others say. */
  podAt(address: string): OwnerPod | undefined {
    return this.#byAddress.get(address)?.find(({ pod }) => pod !== undefined)?.pod;
  }

  /** The address that a text names, as its owner has it. */
  addressOf(text: string): Address | undefined {
    return this.#byAddress.get(text)?.[0]?.addresses.find((address) => formatAddress(address) === text);
  }

  /** Who sends from an address and receives at it: an endpoint of this node before a pod that others tell of. */
  workloadAt(address: string): Owner | undefined {
    const owners = this.#byAddress.get(address) ?? [];
    return owners.find(({ hostInterface }) => hostInterface !== undefined) ?? owners[0];
  }

  #replace(owners: Map<string, Owner>, key: string, owner: Owner | undefined): readonly string[] {
    const before = owners.get(key);
    if (owner === undefined) owners.delete(key);
    else owners.set(key, owner);
    const claimed = new Set(owner?.addresses.map(formatAddress));
    const touched = new Set([...(before?.addresses.map(formatAddress) ?? []), ...claimed]);
    for (const address of touched) this.#claim(address, before, claimed.has(address) ? owner : undefined);
    return [...touched];
  }

  #claim(address: string, before: Owner | undefined, after: Owner | undefined): void {
    const owners = (this.#byAddress.get(address) ?? []).filter((one) => one !== before);
    if (after !== undefined) owners.push(after);
    if (owners.length === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, owners.length === 1 ? owners : owners.sort(byRank));
  }
}

function ownerOf(hostInterface: string, { addresses, pod }: LocalEndpoint): Owner {
  const workload = pod === undefined ? hostInterface : `${pod.namespace}/${pod.name}`;
  return { workload, hostInterface, addresses, pod };
}

/** Sorts endpoints that are pods first, then peers, then endpoints that are none; each by its own name. */
function byRank(one: Owner, other: Owner): number {
  return rank(one) - rank(other) || compareText(one.hostInterface ?? one.workload, other.hostInterface ?? other.workload);
}

function rank({ hostInterface, pod }: Owner): number {
  if (pod === undefined) return 2;
  return hostInterface === undefined ? 1 : 0;
}
