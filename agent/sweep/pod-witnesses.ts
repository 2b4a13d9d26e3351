/**
 * Which addresses the pods of this node speak for. A status counts for every address: kubelet writes it. An annotation is a claim of whoever
 * may patch the pod, and counts for addresses that the store gave to that very pod; where the store names no pod, any pod of this node may
 * speak. The annotations of a pod are taken apart once, when an address asks for them, and only so much of them (lib/workload/annotations).
 */
import { formatAddress } from "../../lib/addresses/address.ts";
import { Claimed } from "../../lib/claims/claimed.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { namedAddresses } from "../../lib/workload/annotations/named-addresses.ts";
import { POD_IP, POD_IPS } from "../../lib/workload/annotations/pod-addresses.ts";
import type { Holder } from "./witnesses.ts";

interface Annotated {
  /** The addresses that any annotation mentions: Calico's, those of Multus, and whatever else there is. */
  readonly named: Claimed<ReadonlySet<string>>;
  /** They were read to their end. */
  readonly isWhole: boolean;
}

export class PodWitnesses {
  readonly #pods: ReadonlyMap<string, Pod>;
  /** Addresses of all statuses. */
  readonly #statuses: ReadonlySet<string>;
  readonly #annotated = new Map<Pod, Annotated>();

  constructor(pods: readonly Pod[]) {
    this.#pods = new Map(pods.map((pod) => [keyOf(pod), pod]));
    this.#statuses = new Set(pods.flatMap(statusOf));
  }

  /** Pods whose annotations were asked for and not read to their end, as `<namespace>/<name>`. */
  get unread(): readonly string[] {
    return [...this.#annotated].flatMap(([pod, { isWhole }]) => (isWhole ? [] : keyOf(pod)));
  }

  /**
   * Whether a pod names one of the addresses and may do so, or the pod that they were given to has named none so far, or names more than is
   * read.
   */
  mayUse(holder: Holder): boolean {
    const texts = holder.addresses.map(formatAddress);
    if (texts.some((text) => this.#statuses.has(text))) return true;
    if (holder.pod === undefined) return [...this.#pods.values()].some((pod) => this.#isAnnotated(pod, texts));
    const pod = this.#pods.get(holder.pod);
    if (pod === undefined) return false;
    const { named, isWhole } = this.#annotatedOf(pod);
    const hasNamedNone = statusOf(pod).length === 0 && named.prove(({ size }) => size === 0);
    return !isWhole || hasNamedNone || this.#isAnnotated(pod, texts);
  }

  #isAnnotated(pod: Pod, texts: readonly string[]): boolean {
    return this.#annotatedOf(pod).named.prove((named) => texts.some((text) => named.has(text)));
  }

  #annotatedOf(pod: Pod): Annotated {
    const known = this.#annotated.get(pod) ?? annotatedOf(pod);
    this.#annotated.set(pod, known);
    return known;
  }
}

function annotatedOf({ annotations }: Pod): Annotated {
  const { [POD_IPS]: podIps = "", [POD_IP]: podIp = "", ...others } = annotations;
  const { addresses, isWhole } = namedAddresses([podIps, podIp, ...Object.values(others)]);
  return { named: new Claimed(new Set(addresses.map(formatAddress))), isWhole };
}

function statusOf({ podIP, podIPs }: Pod): readonly string[] {
  return namedAddresses([podIP, ...podIPs]).addresses.map(formatAddress);
}

function keyOf({ namespace, name }: Pod): string {
  return `${namespace}/${name}`;
}
