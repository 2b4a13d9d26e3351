/** What an earlier start of this boot has found out about the ranges of this node (A§1.3). */
import { rmSync } from "node:fs";
import type { HostScopeFiles } from "../../ipam-plugin/host-scope/files.ts";
import type { NodeRecord } from "../../ipam-plugin/host-scope/node-record.ts";
import { recordOfThisBoot } from "../../ipam-plugin/host-scope/open.ts";

export interface EarlierRecord {
  readonly record?: NodeRecord;
  /** Why a file that is there is not used. */
  readonly problem?: string;
  /** The file says what another node has: plugins must not go by it either. */
  readonly isOfAnotherNode?: true;
}

/** Ranges belong to the name of a node: the ones of another name are given to another machine, or will be. */
export function earlierRecord({ nodeRecord }: HostScopeFiles, node: string): EarlierRecord {
  try {
    const record = recordOfThisBoot(nodeRecord);
    if (record === undefined) return {};
    if (record.node === node) return { record };
    return { isOfAnotherNode: true, problem: `${nodeRecord} is of node ${record.node}, and this is node ${node}: its ranges are not used` };
  } catch (error) {
    return { problem: String(error) };
  }
}

/** Without the file neither plugins nor a next start give addresses of its ranges. */
export function forgetRecord({ nodeRecord }: HostScopeFiles): void {
  rmSync(nodeRecord, { force: true });
}
