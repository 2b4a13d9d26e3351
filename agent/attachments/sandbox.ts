/**
 * The sandbox of a call, proven in the agent's own mount namespace (A§11.3). A path may lead elsewhere here, or nowhere, and may have been
 * used again since the caller looked; device and inode tell. Where the path does not do, the caller's own descriptor does.
 */

import type { CallerNamespace } from "../../handover/call.ts";
import type { RecordedNamespace } from "../../handover/record.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { statusOf } from "../../lib/system/files.ts";
import { identityOf, Sandbox, type SandboxOptions, seenOf } from "../../lib/system/sandbox.ts";
import { isUnproven } from "../endpoints/recorded-sandbox.ts";

/**
 * For ADD and CHECK.
 * @param peerPid the process of the caller, which keeps the sandbox open
 * @returns `undefined` for what the caller could not look at, and is not there, or is no namespace: the flow says what is wrong with it
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

/**
 * Opens the sandbox for a DEL. What the caller could not find is gone, even if its path leads somewhere now.
 * @throws TortieError `netns-own`
 */
export function openSandboxToRemove(netns: CallerNamespace, peerPid: number, options: SandboxOptions = {}): Sandbox | undefined {
  if (identityOf(netns) === undefined) return undefined;
  const found = reach(netns, peerPid, options);
  return found instanceof Sandbox ? found : undefined;
}

/** What a record keeps of the sandbox of an ADD. */
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

/** Whether the path leads to the very file that the caller saw, which is no namespace. */
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
