/** What CHECK reads of a workload. */
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { PodWishes } from "../lib/workload/annotations/wishes.ts";
import { requestedOf } from "../lib/workload/requested.ts";
import type { Access } from "./access.ts";
import type { Attachment } from "./attachment.ts";
import { type RecordedAddresses, readWorkload } from "./workload.ts";

export type { RecordedAddresses } from "./workload.ts";

export interface Subject {
  readonly wishes: PodWishes;
  /** Of whichever container got it; `undefined` when nobody has addresses. */
  readonly known: RecordedAddresses | undefined;
}

/** @throws as `readWorkload` */
export async function readSubject(attachment: Attachment, config: NetworkConfig, access: Access): Promise<Subject> {
  const core = async () => (access.datastoreType === "kubernetes" ? access.core() : undefined);
  const call = { ...attachment, config, requested: requestedOf(config, attachment.args) };
  const { requests, recorded } = await readWorkload(call, { datastore: access.datastore, core });
  return { wishes: requests, known: recorded };
}
