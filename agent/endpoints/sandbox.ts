/**
 * Proves the sandbox that a piece of work reaches into (design, invariant 16): from the endpoint's record, for a build or a comparison
 * that no caller holds it open for, or from a call.
 *
 * Compares device and inode, since a path may lead elsewhere in the agent's own mount namespace, or nowhere, and may have been used again
 * since the caller looked (A§11.3). Uses the caller's own descriptor where the path does not lead there.
 */

import type { CallerNamespace } from "../../handover/call.ts";
import type { EndpointRecord, RecordedNamespace } from "../../handover/record.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { statusOf } from "../../lib/system/files.ts";
import { identityOf, Sandbox, type SandboxOptions, seenOf } from "../../lib/system/sandbox.ts";

type Recorded = Pick<EndpointRecord, "netns">;

/**
 * Opens the sandbox that a record names.
 * @throws TortieError `netns-missing`, `netns-invalid`, `netns-changed`, `netns-unproven`, `netns-own`
 */
export function openRecorded({ netns }: Recorded): Sandbox {
  return Sandbox.seen(netns);
}

/** Says whether a sandbox could not be proven, which is not a failure of the kernel or of this program. */
export function isUnproven(error: unknown): error is TortieError {
  return error instanceof TortieError && UNPROVEN.has(error.word);
}

const UNPROVEN: ReadonlySet<string> = new Set(["netns-missing", "netns-invalid", "netns-changed", "netns-unproven", "netns-own"]);

/**
 * Says whether the sandbox is gone, or its path leads to another one now. A path at which this agent has never seen the sandbox proves
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

/**
 * Opens the sandbox of a call, for ADD and CHECK.
 * @param peerPid the process of the caller, which keeps the sandbox open
 * @returns `undefined` for what the caller could not look at, and is not there or not a namespace: the flow says what is wrong with it
 * @throws TortieError `netns-unreachable`, `netns-changed`, `netns-own`
 */
export function openSandbox(netns: CallerNamespace, peerPid: number, options: SandboxOptions = {}): Sandbox | undefined {
  if (identityOf(netns) === undefined) return named(netns.path, options);
  const found = reach(netns, peerPid, options);
  if (found instanceof Sandbox) return found;
  if (found.word === "netns-changed") throw found;
  if (found.word === "netns-invalid" && isSame(netns)) return undefined;
  const seen = `device and inode ${identityOf(netns)}`;
  throw new TortieError(
    "netns-unreachable",
    `sandbox ${netns.path} (${seen}) is not to be reached from the agent, nor through process ${peerPid}`,
    { cause: found },
  );
}

/** Returns what a record keeps of the sandbox of an ADD. */
export function recordedOf(netns: CallerNamespace, sandbox: Sandbox | undefined): RecordedNamespace {
  if (sandbox !== undefined) return { ...seenOf(sandbox), path: netns.path, isVisible: sandbox.isAtPath || undefined };
  const { path, dev, ino } = netns;
  return dev === undefined || ino === undefined ? { path } : { path, dev, ino };
}

function reach(netns: CallerNamespace, peerPid: number, options: SandboxOptions): Sandbox | TortieError {
  try {
    return Sandbox.seen(netns, options);
  } catch (error) {
    if (!isUnproven(error) || error.word === "netns-own") throw error;
    const held = netns.fd === undefined ? undefined : Sandbox.heldBy(peerPid, netns.fd, netns, options);
    return held ?? error;
  }
}

/** Says whether the path leads to the very file that the caller saw, which is not a namespace. */
function isSame(netns: CallerNamespace): boolean {
  try {
    return statusOf(netns.path)?.identity === identityOf(netns);
  } catch {
    return false;
  }
}

function named(path: string, options: SandboxOptions): Sandbox | undefined {
  try {
    return Sandbox.named(path, options);
  } catch (error) {
    if (isUnproven(error) && error.word !== "netns-own") return undefined;
    throw error;
  }
}
