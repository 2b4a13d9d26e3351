/**
 * Who may still use an address that no endpoint of this agent has (A§8.1). Plugins that work beside the agent, and those of Calico, hold
 * addresses that look like forgotten ones. Each of their traces counts, and a trace that cannot be read fails the look.
 */
import { isAttachmentAlias, namesAttachment, parseAttachmentAlias } from "../../dataplane/alias.ts";
import type { HostLink } from "../../dataplane/linux/host-links.ts";
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { containerHostInterfaceName, podHostInterfaceName } from "../../lib/workload/interface-names.ts";
import type { FoundRecords } from "../direct-records/direct-records.ts";
import type { Attachment, EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import { PodWitnesses } from "./pod-witnesses.ts";

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
  /** Asked of the server. @throws Error when it cannot be found out */
  read(pod: string): Promise<Pod | undefined>;
}

export interface WitnessParts {
  readonly direct: () => FoundRecords;
  readonly records: () => readonly EndpointRecord[];
  /** One dump of the host's links. @throws Error */
  readonly links: () => readonly HostLink[];
  readonly pods: WitnessPods | undefined;
}

/** Everything that was seen at one look. */
export class Witnesses {
  readonly #records: readonly Pick<EndpointRecord, "attachment" | "addresses">[];
  readonly #links: readonly HostLink[];
  readonly #pods: PodWitnesses;

  /** @throws Error when one of them cannot be read */
  constructor({ direct, records, links, pods }: WitnessParts) {
    // In this order: an attachment that is taken over becomes an endpoint first, and then loses its record.
    const beside = direct();
    const [unreadable] = beside.unreadable;
    if (unreadable !== undefined) throw new Error(`a record of direct mode cannot be read: ${unreadable.path}: ${unreadable.reason}`);
    if (pods !== undefined && !pods.isComplete) throw new Error("the pods of this node are not known");
    this.#records = [...beside.records, ...records()];
    this.#links = links();
    this.#pods = new PodWitnesses(pods?.list() ?? []);
  }

  /** Pods whose annotations count and were not read to their end, so far, as `<namespace>/<name>`. */
  get unread(): readonly string[] {
    return this.#pods.unread;
  }

  /** Whether anything stands for the holder. */
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

/** Whether the pod of the store's word, asked of the server, may still use the addresses. @throws Error when it cannot be found out */
export async function isHeldByPod(holder: Holder, pods: WitnessPods | undefined): Promise<boolean> {
  if (pods === undefined || holder.pod === undefined) return false;
  const pod = await pods.read(holder.pod);
  return pod !== undefined && new PodWitnesses([pod]).mayUse(holder);
}

function isOf({ network, containerId, ifname }: Attachment, holder: Holder): boolean {
  return network === holder.network && containerId === holder.containerId && (holder.ifname ?? ifname) === ifname;
}

/** A link with the holder's name and without our alias belongs to a program that writes none, such as Calico's plugin. */
function servesLink({ name, alias }: HostLink, { network, containerId, ifname, pod }: Holder): boolean {
  if (!isAttachmentAlias(alias)) return isNamedFor(name, containerId, pod);
  if (ifname !== undefined) return namesAttachment(alias, { network, containerId, interfaceName: ifname });
  const found = parseAttachmentAlias(alias);
  return found === undefined || (found.network === network && found.containerId === containerId);
}

/** Whatever the prefix of the names is here. */
function isNamedFor(name: string, containerId: string, pod: string | undefined): boolean {
  const [namespace = "", podName = ""] = pod?.split("/") ?? [];
  const ends = [containerHostInterfaceName(containerId), ...(pod === undefined ? [] : [podHostInterfaceName(namespace, podName)])];
  return ends.some((end) => name.endsWith(end.slice(CALI.length)));
}

const CALI = "cali";
