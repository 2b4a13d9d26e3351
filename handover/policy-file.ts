/**
 * Says that the agent enforces policy on this node: a file in the run directory, from before the first packet is judged until policy is
 * turned off. A plugin that works without the agent reads it: a pod that nobody opens stays closed, and its ADD must not succeed.
 */
import { rmSync } from "node:fs";
import { isText, listOf, parseObject } from "../lib/json/decode.ts";
import { readText } from "../lib/system/files.ts";
import { writeWhole } from "../lib/system/write-whole.ts";
import { type RunDirectory, readBootId } from "./run-directory.ts";

export interface PolicyFile {
  /** How the host ends begin that are judged. */
  readonly prefixes: readonly string[];
}

const MODE = 0o644;

export function writePolicyFile({ policyFile }: Pick<RunDirectory, "policyFile">, { prefixes }: PolicyFile): void {
  writeWhole(policyFile, `${JSON.stringify({ bootId: readBootId(), prefixes })}\n`, MODE);
}

/** Succeeds if there is none. */
export function removePolicyFile({ policyFile }: Pick<RunDirectory, "policyFile">): void {
  rmSync(policyFile, { force: true });
}

/**
 * @param bootId a restart of the machine takes the packet filter away, and what the file says with it
 * @returns `undefined` where policy is off
 */
export function readPolicyFile(path: string, bootId: () => string = readBootId): PolicyFile | undefined {
  let text: string;
  try {
    text = readText(path);
  } catch {
    return undefined;
  }
  try {
    const file = parseObject(text);
    if (file.bootId !== bootId()) return undefined;
    return { prefixes: listOf(isText)(file.prefixes) ? file.prefixes : [] };
  } catch {
    // Cannot be half of one: it is replaced whole. Whatever it is, somebody turned policy on.
    return { prefixes: [] };
  }
}
