/** Writes each part of an ADD into the attachment's record before the part has effects (A§11.4). */

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
  readonly records: Pick<AttachmentRecords, "write" | "build" | "commit">;
  /** The record of the ADD that begins. */
  readonly record: EndpointRecord;
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

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#record = options.record;
  }

  /** As it was last written. */
  get record(): EndpointRecord {
    return this.#record;
  }

  async addresses({ podUid, runtimePodUid }: Pick<Workload, "podUid" | "runtimePodUid">): Promise<void> {
    await this.#write({
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
    await this.#write({
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
    await this.#write({
      ...this.#record,
      phase: "adding:build",
      podMac,
      linkKind: kind,
      ...(hostInterface === undefined ? {} : { hostInterface: { ...hostInterface, index: hostIndex } }),
    });
    this.#record = await this.#options.records.build(this.#record, this.#options.signal);
    await this.#write({ ...this.#record, phase: "adding:endpoint" });
  }

  /** @throws the signal's reason: nobody wants the attachment any more */
  async commit(result: CniResult): Promise<void> {
    const { records, cniVersion, signal } = this.#options;
    signal.throwIfAborted();
    const { previous: _, ...record } = this.#record;
    this.#record = await records.commit({ ...record, phase: "ready", result: renderResult(result, cniVersion) });
  }

  async #write(record: EndpointRecord): Promise<void> {
    this.#record = await this.#options.records.write(record);
    this.#options.signal.throwIfAborted();
  }
}
