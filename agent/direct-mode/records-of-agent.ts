/** What an agent that is away has recorded, as far as it can be read: its own restore judges the rest. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { EndpointDirectories, RECORD_FILE } from "../endpoints/record/directories.ts";
import type { Attachment, EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import { decodeRecord } from "../endpoints/record/record-codec.ts";
import type { RunDirectory } from "../run-directory/run-directory.ts";

/** @returns one record for each endpoint directory that is in force and readable */
export function recordsOfAgent({ path }: Pick<RunDirectory, "path">): readonly EndpointRecord[] {
  const directories = new EndpointDirectories(join(path, "state"));
  const ids = new Set(directories.list().map(({ id }) => id));
  return [...ids].flatMap((id) => readRecord(directories, id) ?? []);
}

export function hasRecord(records: readonly EndpointRecord[], { network, containerId, ifname }: Attachment): boolean {
  return records.some(({ attachment: one }) => one.network === network && one.containerId === containerId && one.ifname === ifname);
}

/** A swap that was cut short leaves the record in the directory that stands aside. */
function readRecord(directories: EndpointDirectories, id: number): EndpointRecord | undefined {
  for (const variant of ["", "_stale"] as const) {
    try {
      return decodeRecord(readFileSync(join(directories.path(id, variant), RECORD_FILE), "utf8"));
    } catch {
      // The other directory may have it. The agent sets aside what no version of ours has written.
    }
  }
  return undefined;
}
