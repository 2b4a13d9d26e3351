/**
 * Carries out what other calls have queued for an agent that may never return (G11): nobody else would release those addresses. Their links
 * went when they were queued, and the paths of their sandboxes may be others' by now, so no sandbox is entered.
 */
import { messageOf } from "../../lib/errors/errors.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { isLockHeld } from "../../lib/system/flock.ts";
import { serve } from "../../main-plugin/serve.ts";
import { prepareCall } from "../attachments/call.ts";
import { callFields, decodeCallBody } from "../attachments/call-body.ts";
import { entryText, parseEntry } from "../delete-queue/queue-entry.ts";
import { type QueueEntry, QueueFiles } from "../delete-queue/queue-files.ts";
import type { Way } from "../forward/forward.ts";
import { Nodes } from "../node/nodes.ts";
import { AttachmentLocks } from "../run-directory/attachment-locks.ts";
import type { RunDirectory } from "../run-directory/run-directory.ts";
import { isHostScope } from "./is-host-scope.ts";
import { hasRecord, recordsOfAgent } from "./records-of-agent.ts";

type Beside = Extract<Way, { kind: "beside" }>;

export interface CarryOutOptions {
  /** How many at most, the oldest first; the next call goes on. */
  readonly most: number;
  readonly log: Logger;
  /** Of the call that does it. */
  readonly signal: AbortSignal;
}

/** Never throws: the call of another container does not fail with these. */
export async function carryOutQueued({ call: { runDirectory }, agent }: Beside, { most, log, signal }: CarryOutOptions): Promise<void> {
  try {
    const queue = new QueueFiles(runDirectory.deleteQueue);
    // Not closed, as the node of the call itself is not.
    const nodes = new Nodes({ log });
    let done = 0;
    for (const entry of queue.list().entries) {
      // An agent that is there by now does it.
      if (done >= most || signal.aborted || isLockHeld(runDirectory.instanceLock)) break;
      if (await carryOut(entry, { runDirectory, agent, queue, nodes, log, signal })) done++;
    }
  } catch (error) {
    log.error(`the agent's delete queue cannot be carried out: ${messageOf(error)}`);
  }
}

interface Parts extends Omit<CarryOutOptions, "most"> {
  readonly runDirectory: RunDirectory;
  readonly agent: Beside["agent"];
  readonly queue: QueueFiles;
  readonly nodes: Nodes;
}

/** @returns whether it was tried: what a plugin has served before, or works on at the moment, is not */
async function carryOut(entry: QueueEntry, { runDirectory, agent, queue, nodes, log, signal }: Parts): Promise<boolean> {
  using lock = new AttachmentLocks(runDirectory.attachments).tryTake(entry.key);
  const text = lock === undefined ? undefined : queue.read(entry);
  if (text === undefined) return false;
  try {
    const { attachment, body, isServed } = parseEntry(text, entry.key);
    if (isServed) return false;
    const callBody = decodeCallBody(body);
    const { call, node } = prepareCall("del", callBody, { nodes });
    if (isHostScope(call, agent)) return false;
    await serve({ ...call, signal, residence: { sandbox: "gone" } }, node);
    // An agent that returns after all has the attachment in its records.
    if (hasRecord(recordsOfAgent(runDirectory), attachment)) await queue.write(entry.key, entryText(callFields(callBody), true));
    else await queue.remove(entry);
    log.info(`the queued DEL of container ${attachment.containerId} is done: the agent has not come back`);
  } catch (error) {
    log.error(`a queued DEL failed (${entry.key}): ${messageOf(error)}`);
  }
  return true;
}
