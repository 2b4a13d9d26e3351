/**
 * Proves the sandbox of an endpoint from its record: what a build, a comparison or a removal works in when no caller holds it open
 * (design, invariant 16).
 */

import type { EndpointRecord } from "../../handover/record.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { statusOf } from "../../lib/system/files.ts";
import { identityOf, Sandbox } from "../../lib/system/sandbox.ts";

type Recorded = Pick<EndpointRecord, "netns">;

/**
 * The sandbox that a record names.
 * @throws TortieError `netns-missing`, `netns-invalid`, `netns-changed`, `netns-unproven`, `netns-own`
 */
export function openRecorded({ netns }: Recorded): Sandbox {
  return Sandbox.seen(netns);
}

/**
 * The sandbox that a removal may reach into: that of the record, where it can be proven. The caller's is another one when its path was
 * used again, or when the container was given a new sandbox.
 */
export function sandboxOfRecord({ netns }: Recorded, given: Sandbox | undefined): Sandbox | undefined {
  const wanted = identityOf(netns);
  if (wanted === undefined) return given?.borrowed();
  if (given?.is(netns) === true) return given.borrowed();
  try {
    return Sandbox.seen(netns);
  } catch (error) {
    if (isUnproven(error)) return undefined;
    throw error;
  }
}

/** Whether a sandbox could not be proven, which is no failure of the kernel or of this program. */
export function isUnproven(error: unknown): error is TortieError {
  return error instanceof TortieError && UNPROVEN.has(error.word);
}

const UNPROVEN: ReadonlySet<string> = new Set(["netns-missing", "netns-invalid", "netns-changed", "netns-unproven", "netns-own"]);

/**
 * Whether the sandbox is gone, or its path leads to another one by now. A path at which this agent has never seen the sandbox says
 * nothing, and neither does one that cannot be looked at.
 */
export function isSandboxGone({ netns }: Recorded): boolean {
  const wanted = identityOf(netns);
  if (netns.isVisible !== true || wanted === undefined) return false;
  try {
    if (statusOf(netns.path)?.identity !== wanted) return true;
    using _ = Sandbox.seen(netns);
    return false;
  } catch (error) {
    if (isUnproven(error)) return error.word === "netns-missing" || error.word === "netns-changed";
    if (systemErrorCode(error) === undefined) throw error;
    return false;
  }
}
