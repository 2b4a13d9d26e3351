/**
 * Finds out who may still use an address that no endpoint of this agent has (A§8.1). Plugins that work beside the agent, and those of
 * Calico, hold addresses that look like forgotten ones. Each of their traces counts, and a trace that cannot be read fails the look.
 */

import { isAttachmentAlias, namesAttachment, parseAttachmentAlias } from "../../dataplane/alias.ts";
import type { HostLink } from "../../dataplane/linux/host-facts.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { Claimed } from "../../lib/system/claimed.ts";
import { namedAddresses, POD_IP, POD_IPS } from "../../lib/workload/annotations/pod-addresses.ts";
import { containerHostInterfaceName, podHostInterfaceName } from "../../lib/workload/names.ts";

/** Addresses that were given to one attachment, or to one container of a network. */
export interface Holder {
  readonly network: string;
  readonly containerId: string;
  /** Absent where the store keeps the addresses of all interfaces of a container together. */
  readonly ifname?: string;
  /** `<namespace>/<pod>`, where the store says so. */
  readonly pod?: string;
  readonly addresses: readonly Address[];
}

/** The pods of this node, where there is a cluster. */
export interface WitnessPods {
  /** The list is complete, and changes are being heard of. */
  readonly isComplete: boolean;
  list(): readonly Pod[];
  /** Asks the server. @throws Error when it cannot be found out */
  read(pod: string): Promise<Pod | undefined>;
}

export interface WitnessParts {
  readonly records: () => readonly EndpointRecord[];
  /** One dump of the host's links. @throws Error */
  readonly links: () => readonly HostLink[];
  readonly pods: WitnessPods | undefined;
}

/** Holds everything that was seen at one look. */
export class Witnesses {
  readonly #records: readonly Pick<EndpointRecord, "attachment" | "addresses">[];
  readonly #links: readonly HostLink[];
  readonly #pods: PodWitnesses;

  /** @throws Error when one of them cannot be read */
  constructor({ records, links, pods }: WitnessParts) {
    if (pods !== undefined && !pods.isComplete) throw new Error("the pods of this node are not known");
    this.#records = records();
    this.#links = links();
    this.#pods = new PodWitnesses(pods?.list() ?? []);
  }

  /** Lists pods whose annotations count and were not read to their end, so far, as `<namespace>/<name>`. */
  get unread(): readonly string[] {
    return this.#pods.unread;
  }

  /** Says whether anything stands for the holder. */
  mayUse(holder: Holder): boolean {
    return this.#hasRecord(holder) || this.#links.some((link) => servesLink(link, holder)) || this.#pods.mayUse(holder);
  }

  #hasRecord(holder: Holder): boolean {
    const texts = new Set(holder.addresses.map(formatAddress));
    return this.#records.some(
      ({ attachment, addresses }) => isOf(attachment, holder) || addresses.some(({ address }) => texts.has(address)),
    );
  }
}

/** Asks the server whether the pod that the store names may still use the addresses. @throws Error when it cannot be found out */
export async function isHeldByPod(holder: Holder, pods: WitnessPods | undefined): Promise<boolean> {
  if (pods === undefined || holder.pod === undefined) return false;
  const pod = await pods.read(holder.pod);
  return pod !== undefined && new PodWitnesses([pod]).mayUse(holder);
}

function isOf({ network, containerId, ifname }: AttachmentId, holder: Holder): boolean {
  return network === holder.network && containerId === holder.containerId && (holder.ifname ?? ifname) === ifname;
}

/**
 * Says whether the link serves the holder. One with its name and without our alias is of a program that writes no alias, such as Calico's.
 */
function servesLink({ name, alias }: HostLink, { network, containerId, ifname, pod }: Holder): boolean {
  if (!isAttachmentAlias(alias)) return isNamedFor(name, containerId, pod);
  if (ifname !== undefined) return namesAttachment(alias, { network, containerId, ifname });
  const found = parseAttachmentAlias(alias);
  return found === undefined || (found.network === network && found.containerId === containerId);
}

/** Compares names, whatever their prefix is here. */
function isNamedFor(name: string, containerId: string, pod: string | undefined): boolean {
  const [namespace = "", podName = ""] = pod?.split("/") ?? [];
  const ends = [containerHostInterfaceName(containerId), ...(pod === undefined ? [] : [podHostInterfaceName(namespace, podName)])];
  return ends.some((end) => name.endsWith(end.slice(CALI.length)));
}

const CALI = "cali";

interface Annotated {
  /** The addresses that any annotation mentions: Calico's, those of Multus, and whatever else there is. */
  readonly named: Claimed<ReadonlySet<string>>;
  /** They were read to their end. */
  readonly isWhole: boolean;
}

/**
 * Finds out which addresses the pods of this node speak for. A status counts for every address: kubelet writes it. An annotation is a claim
 * of whoever may patch the pod, and counts for addresses that the store gave to that very pod; where the store names no pod, any pod of
 * this node may speak. The annotations of a pod are taken apart once, when an address asks for them, and only so much of them
 * (lib/workload/annotations).
 */
class PodWitnesses {
  readonly #pods: ReadonlyMap<string, Pod>;
  /** Addresses of all statuses. */
  readonly #statuses: ReadonlySet<string>;
  readonly #annotated = new Map<Pod, Annotated>();

  constructor(pods: readonly Pod[]) {
    this.#pods = new Map(pods.map((pod) => [keyOf(pod), pod]));
    this.#statuses = new Set(pods.flatMap(statusOf));
  }

  /** Lists pods whose annotations were asked for and not read to their end, as `<namespace>/<name>`. */
  get unread(): readonly string[] {
    return [...this.#annotated].flatMap(([pod, { isWhole }]) => (isWhole ? [] : keyOf(pod)));
  }

  /**
   * Says whether a pod names one of the addresses and may do so, or the pod that they were given to has named none so far, or names more
   * than is read.
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
    return this.#annotated.getOrInsertComputed(pod, () => annotatedOf(pod));
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
