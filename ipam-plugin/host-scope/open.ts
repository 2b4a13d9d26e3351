/** Opens the host scope of a node as it lies in the agent's state directory: grants, and the ranges of `node.json` (A§0.2, A§11.6). */
import { TortieError } from "../../lib/errors/errors.ts";
import { readText } from "../../lib/system/files.ts";
import type { HostScopeFiles } from "./files.ts";
import { openGrantDirectory } from "./grant-directory.ts";
import { HostScope } from "./host-scope.ts";
import { type NodeRecord, rangesOf, readNodeRecord } from "./node-record.ts";

const DEFAULT_COOLDOWN_MS = 30_000;
const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/** Opens it for a process of one call: the record is read once, now. */
export function openHostScope(files: HostScopeFiles): HostScope {
  const found = lookForRecord(files.nodeRecord);
  return hostScopeWith(files, {
    record() {
      if (found.error !== undefined) throw found.error;
      return found.record;
    },
    strategy: found.record?.strategy ?? "random",
    cooldownMs: found.record?.cooldownMs ?? DEFAULT_COOLDOWN_MS,
  });
}

/** Looks for the record; a damaged one fails only calls that need the ranges; a DEL does not (design, invariant 4). */
function lookForRecord(path: string): { readonly record?: NodeRecord; readonly error?: unknown } {
  try {
    const record = recordOfThisBoot(path);
    return record === undefined ? {} : { record };
  } catch (error) {
    return { error };
  }
}

export interface HostScopeSettings extends Pick<NodeRecord, "strategy" | "cooldownMs"> {
  /** What is known of the ranges now. */
  readonly record: () => NodeRecord | undefined;
}

/** Opens it for a process that lives on, and finds out about the ranges itself. */
export function hostScopeWith({ grants, nodeRecord }: HostScopeFiles, { record, strategy, cooldownMs }: HostScopeSettings): HostScope {
  return new HostScope({
    directory: openGrantDirectory(grants),
    ranges: () => {
      const known = record();
      if (known !== undefined) return rangesOf(known);
      throw new TortieError("node-cidr-missing", `the range of this node is not known yet: ${nodeRecord} is missing or of an earlier boot`);
    },
    strategy,
    cooldownMs,
    nowMs: () => Date.now(),
    random: Math.random,
    newToken: () => crypto.randomUUID(),
  });
}

/** Reads a record of this boot; the kernel has forgotten the addresses of any other. @throws TortieError `node-cidr-missing` */
export function recordOfThisBoot(path: string): NodeRecord | undefined {
  const record = readNodeRecord(path);
  return record?.bootId === readText(BOOT_ID).trim() ? record : undefined;
}
