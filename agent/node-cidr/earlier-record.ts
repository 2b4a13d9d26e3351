/** What an earlier start of this boot has found out about the ranges of this node (A§1.3). */
import { rmSync } from "node:fs";
import type { HostScopeFiles } from "../../ipam-plugin/host-scope/files.ts";
import type { NodeRecord } from "../../ipam-plugin/host-scope/node-record.ts";
import { recordOfThisBoot } from "../../ipam-plugin/host-scope/open.ts";

export interface EarlierRecord {
  readonly record?: NodeRecord;
  /** Why a file that is there is not used. */
  readonly problem?: string;
}

/** Damage is no reason not to start: the ranges are found out again. */
export function earlierRecord({ nodeRecord }: HostScopeFiles): EarlierRecord {
  try {
    const record = recordOfThisBoot(nodeRecord);
    return record === undefined ? {} : { record };
  } catch (error) {
    return { problem: String(error) };
  }
}

/** Without the file neither plugins nor a next start give addresses of its ranges. */
export function forgetRecord({ nodeRecord }: HostScopeFiles): void {
  rmSync(nodeRecord, { force: true });
}
