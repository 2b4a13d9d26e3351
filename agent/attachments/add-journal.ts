/**
 * Notes each part of an ADD in the attachment's record before the part has effects (A§11.4). The record is durable before the first effect
 * and at the commit. The phases between are in memory, for the API: a successor takes back an ADD that was cut off in the same way, by the
 * recorded call, whichever phase it was in.
 */

import { attachmentAlias } from "../../dataplane/alias.ts";
import type { AppliedLink } from "../../dataplane/dataplane.ts";
import type { DesiredState } from "../../dataplane/desired-state.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import type { CniResult, CniVersion } from "../../lib/cni/protocol.ts";
import { renderResult } from "../../lib/cni/result.ts";
import { workloadHandleId } from "../../lib/workload/identity.ts";
import type { Lease } from "../../main-plugin/addresses.ts";
import type { AddJournal } from "../../main-plugin/residence.ts";
import type { Workload } from "../../main-plugin/workload.ts";
import type { EndpointRecord, RecordedAddress } from "../endpoints/record/endpoint-record.ts";
import type { AttachmentRecords } from "./records.ts";

export interface JournalOptions {
  readonly records: Pick<AttachmentRecords, "write" | "keep" | "build" | "commit">;
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

  /** As it was last noted. */
  get record(): EndpointRecord {
    return this.#record;
  }

  async addresses({ podUid, runtimePodUid }: Pick<Workload, "podUid" | "runtimePodUid">): Promise<void> {
    await this.#note({
      ...this.#record,
      phase: "adding:addresses",
      ...(podUid === undefined ? {} : { podUID: podUid }),
      ...(runtimePodUid === undefined ? {} : { runtimePodUID: runtimePodUid }),
    });
  }

  async link({ addresses, isUngranted }: Lease, desired: DesiredState): Promise<void> {
    const { grant } = this.#options;
    const { network, containerId } = this.#record.attachment;
    const handle = grant === "block" ? { handle: workloadHandleId(network, containerId) } : {};
    const { host } = desired;
    await this.#note({
      ...this.#record,
      phase: "adding:dataplane",
      addresses: addresses.map(({ address }) => ({
        address: formatAddress(address),
        family: address.family,
        grant,
        ...handle,
        ...(isUngranted ? { isUngranted } : {}),
      })),
      desired,
      hostInterface: { name: host.name, alias: attachmentAlias(host.owner) },
      hostMac: host.mac,
    });
  }

  async endpoint({ podMac, kind, hostIndex }: Pick<AppliedLink, "podMac" | "kind" | "hostIndex">): Promise<void> {
    const { hostInterface } = this.#record;
    await this.#note({
      ...this.#record,
      phase: "adding:build",
      podMac,
      linkKind: kind,
      ...(hostInterface === undefined ? {} : { hostInterface: { ...hostInterface, index: hostIndex } }),
    });
    this.#record = await this.#options.records.build(this.#record, this.#options.signal);
    await this.#note({ ...this.#record, phase: "adding:endpoint" });
  }

  /** @throws the signal's reason: nobody wants the attachment any more */
  async commit(result: CniResult): Promise<void> {
    const { records, cniVersion, signal } = this.#options;
    signal.throwIfAborted();
    const { previous: _, ...record } = this.#record;
    this.#record = await records.commit({ ...record, phase: "ready", result: renderResult(result, cniVersion) });
  }

  async #note(record: EndpointRecord): Promise<void> {
    const { records, signal } = this.#options;
    this.#record = this.#isBegun ? records.keep(record) : await records.write(record);
    this.#isBegun = true;
    signal.throwIfAborted();
  }
}
