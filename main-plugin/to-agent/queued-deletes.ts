/**
 * Carries out what other calls have queued for an agent that may never return (G11): nobody else would release those addresses. Their links
 * went when they were queued, and their sandboxes' paths may lead to others since, so no sandbox is entered.
 */
import { AttachmentLocks } from "../../handover/attachment-locks.ts";
import { requestOf } from "../../handover/call-body.ts";
import { DeleteQueueFiles, type QueueEntry, recordsOfAgent } from "../../handover/left-files.ts";
import { isHostScope } from "../../handover/run-directory.ts";
import { isSameAttachment } from "../../lib/cni/attachment-id.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { createLogger, type Logger } from "../../lib/log/logger.ts";
import { Secrets } from "../../lib/log/secrets.ts";
import { isLockHeld } from "../../lib/system/flock.ts";
import { resolveNetworkCall } from "../call.ts";
import { Hosts } from "../hosts.ts";
import { serve } from "../serve.ts";
import type { Way } from "./ask.ts";

export interface CarryOutOptions {
  /** How many at most, the oldest first; the next call goes on. */
  readonly most: number;
  readonly log: Logger;
  /** Of the call that does it. */
  readonly signal: AbortSignal;
}

interface Parts extends Omit<CarryOutOptions, "most">, Pick<Extract<Way, { kind: "agent-away" }>, "agent" | "call"> {
  readonly queue: DeleteQueueFiles;
  /** Not closed, as the host of the call itself is not. */
  readonly hosts: Hosts;
}

/** Carries out queued DELs. Never throws: the call of another container does not fail with these. */
export async function carryOutQueued(way: Pick<Parts, "agent" | "call">, { most, log, signal }: CarryOutOptions): Promise<void> {
  try {
    const { deleteQueue, instanceLock } = way.call.runDirectory;
    const queue = new DeleteQueueFiles(deleteQueue);
    const parts = { ...way, queue, hosts: new Hosts({ log }), log, signal };
    let done = 0;
    for (const entry of queue.list().entries) {
      // An agent that has come back does it.
      if (done >= most || signal.aborted || isLockHeld(instanceLock)) break;
      if (await carryOut(entry, parts)) done++;
    }
  } catch (error) {
    log.error(`the agent's delete queue cannot be carried out: ${messageOf(error)}`);
  }
}

/** @returns whether it was tried: what a plugin has served before, or works on at the moment, is not */
async function carryOut(entry: QueueEntry, { call: { runDirectory }, agent, queue, hosts, log, signal }: Parts): Promise<boolean> {
  using lock = new AttachmentLocks(runDirectory.attachments).tryTake(entry.key);
  if (lock === undefined) return false;
  try {
    const found = queue.read(entry);
    if (found === undefined || found.isServed) return false;
    const { attachment, call } = found;
    const request = requestOf(call);
    const config = decodeNetworkConfig(request.netconf);
    if (isHostScope(config.ipam.type, agent)) return false;
    const ownLog = createLogger(config.log, request, { secrets: new Secrets(config.policy.k8sAuthToken) });
    const resolved = resolveNetworkCall(request, config, call.env, ownLog, signal);
    await serve({ ...resolved, sandbox: "gone" }, hosts.of(config, call.env));
    // An agent that returns after all has the attachment in its records.
    const isRecorded = recordsOfAgent(runDirectory).some((record) => isSameAttachment(record.attachment, attachment));
    if (isRecorded) await queue.write(entry.key, call, true);
    else await queue.remove(entry);
    log.info(`the queued DEL of container ${attachment.containerId} is done: the agent has not come back`);
  } catch (error) {
    log.error(`a queued DEL failed (${entry.key}): ${messageOf(error)}`);
  }
  return true;
}
