/**
 * The sandbox of a call, in the agent's own mount namespace (A§11.3). A path may lead elsewhere here, or nowhere, and may have been used
 * again since the caller looked; device and inode tell. Where the path does not do, the caller's own descriptor does.
 */
import { TortieError } from "../../lib/errors/errors.ts";
import { closeFile, O_RDONLY, openFile, statusOf, statusOfOpen } from "../../lib/system/files.ts";
import type { Node } from "../../main-plugin/node.ts";
import type { RecordedNamespace } from "../endpoints/record/endpoint-record.ts";
import type { CallerNamespace } from "./call-body.ts";

export interface Sandbox extends Disposable {
  /** What leads to it where the request's path does not; "" for one that is gone. */
  readonly path?: string;
  readonly recorded: RecordedNamespace;
  /** @throws TortieError `netns-changed` when the path leads to another one by now */
  verify(): void;
}

/**
 * For ADD and CHECK. A sandbox that the caller could not look at either is left to the flow, which says what is wrong with it.
 * @param peerPid the process of the caller, which keeps the sandbox open
 * @throws TortieError `netns-unreachable`, `netns-changed`
 */
export function openSandbox(netns: CallerNamespace, peerPid: number): Sandbox {
  const found = reach(netns, peerPid);
  if (found !== "changed" && found !== "unreachable") return found;
  const seen = identityText(netns);
  if (found === "changed") throw changed(netns.path, seen);
  throw new TortieError(
    "netns-unreachable",
    `sandbox ${netns.path} (${seen}) is not to be reached from the agent, nor through process ${peerPid}`,
  );
}

/** For DEL: a path that leads to another sandbox by now must not be followed, and one that is gone need not be. */
export function openSandboxToRemove(netns: CallerNamespace, peerPid: number): Sandbox {
  const found = reach(netns, peerPid);
  return found === "changed" || found === "unreachable"
    ? { path: "", recorded: recordedOf(netns), verify: () => {}, [Symbol.dispose]: () => {} }
    : found;
}

/** The node for one call: its link is made in the sandbox that the call means or nowhere. */
export function inSandbox(node: Node, sandbox: Sandbox): Node {
  const { dataplane } = node;
  return {
    ...node,
    dataplane: {
      apply(desired) {
        sandbox.verify();
        return dataplane.apply(desired);
      },
      inspect: (desired, recorded) => dataplane.inspect(desired, recorded),
      drift: (desired) => dataplane.drift(desired),
      mend: (desired, podMac) => {
        sandbox.verify();
        return dataplane.mend(desired, podMac);
      },
      remove: (link) => dataplane.remove(link),
      list: () => dataplane.list(),
      applyNode: (state) => dataplane.applyNode(state),
    },
  };
}

function reach(netns: CallerNamespace, peerPid: number): Sandbox | "changed" | "unreachable" {
  const { path, fd } = netns;
  const recorded = recordedOf(netns);
  const wanted = identityOf(netns);
  if (wanted === undefined) return { recorded, verify: () => {}, [Symbol.dispose]: () => {} };
  const found = identityAt(path);
  if (found === wanted) {
    return {
      recorded,
      verify: () => {
        if (identityAt(path) !== wanted) throw changed(path, identityText(netns));
      },
      [Symbol.dispose]: () => {},
    };
  }
  const opened = fd === undefined ? undefined : openOfCaller(peerPid, fd, wanted);
  if (opened === undefined) return found === undefined ? "unreachable" : "changed";
  return { path: `/proc/self/fd/${opened}`, recorded, verify: () => {}, [Symbol.dispose]: () => closeFile(opened) };
}

/** @returns a descriptor of this process's own; `undefined` unless it is what was meant */
function openOfCaller(pid: number, fd: number, wanted: string): number | undefined {
  let opened: number;
  try {
    opened = openFile(`/proc/${pid}/fd/${fd}`, O_RDONLY);
  } catch {
    return undefined;
  }
  if (statusOfOpen(opened).identity === wanted) return opened;
  closeFile(opened);
  return undefined;
}

function identityOf({ dev, ino }: CallerNamespace): string | undefined {
  return dev === undefined || ino === undefined ? undefined : `${dev}:${ino}`;
}

function identityText(netns: CallerNamespace): string {
  return `device and inode ${identityOf(netns) ?? "unknown"}`;
}

function identityAt(path: string): string | undefined {
  try {
    return statusOf(path)?.identity;
  } catch {
    return undefined;
  }
}

function recordedOf({ path, dev, ino }: CallerNamespace): RecordedNamespace {
  return { path, ...(dev === undefined ? {} : { dev }), ...(ino === undefined ? {} : { ino }) };
}

function changed(path: string, seen: string): TortieError {
  return new TortieError("netns-changed", `${path} leads to another sandbox than when the call was made (${seen}): nothing was made`);
}
