/**
 * Notes each part of an ADD in the attachment's record before the part has effects (A§11.4). The record is durable before the first effect
 * and at the commit. The phases between are in memory, for the API: a successor takes back an ADD that was cut off in the same way, by the
 * recorded call, whichever phase it was in.
 */
import { attachmentAlias } from "../dataplane/alias.ts";
import type { AppliedLink } from "../dataplane/dataplane.ts";
import type { DesiredState } from "../dataplane/desired-state.ts";
import { formatAddress, type Prefix } from "../lib/addresses/address.ts";
import type { CniResult, CniVersion } from "../lib/cni/protocol.ts";
import { renderResult } from "../lib/cni/result.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import { workloadHandleId } from "../lib/workload/identity.ts";
import type { EndpointRecord, RecordedAddress } from "./record.ts";

/**
 * Told of each part of an ADD before it takes effect, so that a process that starts after a crash knows what may exist. If it throws,
 * the ADD fails and is undone.
 */
export interface AddJournal {
  /** Notes that addresses will be taken. */
  addresses(workload: { readonly podUid: string | undefined; readonly runtimePodUid: string | undefined }): Promise<void>;
  /** Notes that the addresses are the attachment's, and that the kernel will be changed. */
  link(lease: { readonly addresses: readonly Prefix[]; readonly isUngranted: boolean }, desired: DesiredState): Promise<void>;
  /** Notes that the links are up, and that the record that others read will be written. */
  endpoint(link: Pick<AppliedLink, "podMac" | "kind" | "hostIndex">): Promise<void>;
  /** Passes the point of no return: from here on the attachment stays, whatever becomes of the caller. */
  commit(result: CniResult): Promise<void>;
}

export interface JournalOptions {
  readonly records: {
    /** Writes the record, durable when it returns. @returns the record with its new time */
    write(record: EndpointRecord): Promise<EndpointRecord>;
    /** Keeps the record in memory alone. @returns the record with its new time */
    keep(record: EndpointRecord): EndpointRecord;
    /** Waits for identity and the first build (A§11.4 step 7). @param signal ends the wait */
    build(record: EndpointRecord, signal: AbortSignal): Promise<EndpointRecord>;
    /** Writes phase `ready`. What follows it, such as the object in the cluster, begins behind the caller. */
    commit(record: EndpointRecord): Promise<EndpointRecord>;
  };
  /** The record of the ADD that begins. */
  readonly record: EndpointRecord;
  /** The file says already that an ADD is under way; that of a repeated one says "ready" until the first note. */
  readonly isBegun: boolean;
  /** What proves that the addresses are the attachment's. */
  readonly grant: RecordedAddress["grant"];
  /** Of the printed result. */
  readonly cniVersion: CniVersion;
  /** Whether the ADD shall be taken back. */
  readonly signal: AbortSignal;
}

export class RecordingJournal implements AddJournal {
  readonly #options: JournalOptions;
  #record: EndpointRecord;
  #isBegun: boolean;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#record = options.record;
    this.#isBegun = options.isBegun;
  }

  /** Returns the record as it was last noted. */
  get record(): EndpointRecord {
    return this.#record;
  }

  addresses({ podUid, runtimePodUid }: Parameters<AddJournal["addresses"]>[0]): Promise<void> {
    const { podUID, runtimePodUID } = this.#record;
    return this.#note({ phase: "adding:addresses", podUID: podUid ?? podUID, runtimePodUID: runtimePodUid ?? runtimePodUID });
  }

  link({ addresses, isUngranted }: Parameters<AddJournal["link"]>[0], desired: DesiredState): Promise<void> {
    const { grant } = this.#options;
    const { network, containerId } = this.#record.attachment;
    const handle = grant === "block" ? workloadHandleId(network, containerId) : undefined;
    const { host } = desired;
    return this.#note({
      phase: "adding:dataplane",
      addresses: addresses.map(({ address }) => ({
        address: formatAddress(address),
        family: address.family,
        grant,
        handle,
        isUngranted: isUngranted || undefined,
      })),
      desired,
      hostInterface: { name: host.name, alias: attachmentAlias(host.owner) },
      hostMac: host.mac,
    });
  }

  async endpoint({ podMac, kind, hostIndex }: Parameters<AddJournal["endpoint"]>[0]): Promise<void> {
    const hostInterface = this.#record.hostInterface && { ...this.#record.hostInterface, index: hostIndex };
    await this.#note({ phase: "adding:build", podMac, linkKind: kind, hostInterface });
    this.#record = await this.#options.records.build(this.#record, this.#options.signal);
    await this.#note({ phase: "adding:endpoint" });
  }

  /** @throws the signal's reason: nobody wants the attachment any more */
  async commit(result: CniResult): Promise<void> {
    const { records, cniVersion, signal } = this.#options;
    signal.throwIfAborted();
    const { previous: _, ...record } = this.#record;
    this.#record = await records.commit({ ...record, phase: "ready", result: renderResult(result, cniVersion) });
  }

  async #note(changes: Partial<EndpointRecord>): Promise<void> {
    const { records, signal } = this.#options;
    const record = { ...this.#record, ...changes };
    this.#record = this.#isBegun ? records.keep(record) : await records.write(record);
    this.#isBegun = true;
    signal.throwIfAborted();
  }
}

/** Says what proves that the addresses of this configuration are an attachment's. */
export function grantOf({ ipam }: Pick<NetworkConfig, "ipam">): RecordedAddress["grant"] {
  switch (ipam.type) {
    case "tortie-ipam":
    case "calico-ipam":
      return "block";
    case "tortie-host-scope":
      return "file";
    default:
      return "external";
  }
}
