/**
 * The CNI verbs in the agent (A§11.4, A§11.5): the flows of `main-plugin/`, one operation an attachment at a time, journalled, with the
 * node kept from call to call.
 */

import { SYSTEM_CLOCK } from "../../lib/system/clock.ts";
import type { SandboxOptions } from "../../lib/system/sandbox.ts";
import { NEVER } from "../../lib/system/waiting.ts";
import { isChained } from "../../main-plugin/attach-chained.ts";
import { serve } from "../../main-plugin/serve.ts";
import { type Attachment, attachmentKey, type EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import type { CniVerb } from "../forward/protocol.ts";
import { attachmentKey as lockKey } from "../run-directory/attachment-key.ts";
import type { AttachmentLocks } from "../run-directory/attachment-locks.ts";
import { addAttachment, type Outcome } from "./add-operation.ts";
import { type Answer, answerOf, errorAnswer } from "./answer.ts";
import { assertDelegateIsHere, prepareCall, type ServedCall, type Surroundings } from "./call.ts";
import { decodeCallBody, environmentOf, parseCallBody, requestOf } from "./call-body.ts";
import { Collections } from "./collections.ts";
import { removeAttachment } from "./del-operation.ts";
import { collectAttachments } from "./gc-operation.ts";
import type { NewCluster } from "./new-cluster.ts";
import type { AttachmentRecords } from "./records.ts";
import { openSandbox, openSandboxToRemove } from "./sandbox.ts";
import { AttachmentTurns, type TurnKind } from "./turns.ts";

/** Who calls. */
export interface CallContext {
  readonly peer: { readonly pid: number };
  /** Aborts when the caller wants no answer any more: its connection ended, or its time is over (A§2.8). */
  readonly signal: AbortSignal;
  /** W3C trace context of the caller. */
  readonly traceparent?: string;
}

export interface AttachmentParts extends Surroundings {
  readonly records: AttachmentRecords;
  /** Between the agent and plugins that work without it (A§11.6). */
  readonly locks?: Pick<AttachmentLocks, "take">;
  /** What a plugin did of this attachment without the agent is the agent's first (A§11.6). */
  readonly takeOver?: (attachment: Attachment, signal: AbortSignal) => Promise<void>;
  /** The same by who holds the attachment's lock already. */
  readonly takeOverLocked?: (attachment: Attachment) => Promise<void>;
  /** A DEL of this attachment that waits in the queue is carried out first (A§11.4 step 2). */
  readonly queuedDelete?: (attachment: Attachment) => Promise<void>;
  /** What an ADD waits for in a cluster that somebody has just made. */
  readonly newCluster?: Pick<NewCluster, "untilMade">;
  /** Removes an endpoint that no ADD made. @throws Error: it is repeated behind */
  readonly forgetRegistered: (record: EndpointRecord) => Promise<void>;
  /** The agent's own judgement of its health, which STATUS gives too (A§8.3). @throws TortieError `status-unavailable` */
  readonly assertReady?: () => void;
}

export class AttachmentService {
  readonly #parts: AttachmentParts;
  readonly #turns = new AttachmentTurns<Outcome>();
  readonly #collections = new Collections(() => this.#turns.busy(), SYSTEM_CLOCK);

  constructor(parts: AttachmentParts) {
    this.#parts = parts;
  }

  /** Never throws. @param body of the call (A§11.3) */
  async serve(verb: CniVerb, body: unknown, context: CallContext): Promise<Answer> {
    let served: ServedCall | undefined;
    try {
      const call = prepareCall(verb, decodeCallBody(body), this.#parts, context.traceparent);
      served = call;
      const { printed, endpointId } = await traced(call, () => this.#logged(verb, call, () => this.#route(verb, call, context)));
      return answerOf(printed, call.warnings(), endpointId);
    } catch (error) {
      return errorAnswer(error, served?.secrets);
    }
  }

  /**
   * Removes an attachment by its record, an endpoint that was registered included: an ADD that was killed, a DEL that could not be
   * finished, what a GC does not list, what a sweep finds lost.
   * What a plugin has made of the attachment since `judged` was looked at stays: nobody has judged that.
   * @param isWanted asked when it is its turn: whether the attachment is to stay after all
   * @throws what a DEL throws; harmless to repeat
   */
  async finish(judged: Pick<EndpointRecord, "attachment" | "createdAt">, isWanted = () => false): Promise<void> {
    const { attachment } = judged;
    await this.#turn("del", attachment, "finish", NEVER, async () => {
      const record = this.#parts.records.find(attachment);
      const text = record?.request?.call;
      if (record === undefined || record.createdAt !== judged.createdAt || isWanted()) return {};
      if (text === undefined) {
        await this.#parts.forgetRegistered(record);
        return {};
      }
      // No call of a runtime: what was traced is over.
      const served = prepareCall("del", parseCallBody(text), { ...this.#parts, tracing: undefined });
      return this.#logged("del", served, () => this.#remove(served, 0));
    });
  }

  /** Whether there is a record of the attachment that this call is about, or an operation on it. */
  isKnown(body: unknown): boolean {
    try {
      const { network, containerId, interfaceName: ifname } = requestOf(environmentOf("del", decodeCallBody(body)), decodeCallBody(body));
      const attachment = { network, containerId, ifname };
      return this.#turns.isBusy(attachmentKey(attachment)) || this.#parts.records.find(attachment) !== undefined;
    } catch {
      return false;
    }
  }

  async #logged(verb: CniVerb, { log }: ServedCall, work: () => Promise<Outcome>): Promise<Outcome> {
    const command = verb.toUpperCase();
    // Written at once, so that the log also names an operation that is killed.
    log.writeNow("info", `${command} begins`);
    try {
      const outcome = await work();
      log.info(`${command} done`);
      return outcome;
    } catch (error) {
      log.error(`${command} failed`, { error });
      throw error;
    } finally {
      await log.flush();
    }
  }

  async #route(verb: CniVerb, served: ServedCall, { peer, signal: caller }: CallContext): Promise<Outcome> {
    const { attachment, call, node, body } = served;
    assertDelegateIsHere(served);
    if (verb === "add") this.#collections.addCame(attachment);
    switch (verb) {
      case "add":
        // Before the queue is asked, which compares the ADD that a plugin did with the DEL that waits; its turn comes later.
        await this.#parts.takeOver?.(attachment, caller);
        await this.#parts.queuedDelete?.(attachment);
        return this.#turn("add", attachment, sandboxDigest(served), caller, (signal) => this.#add(served, peer.pid, signal));
      case "del":
        return this.#turn("del", attachment, served.digest, caller, () => this.#remove(served, peer.pid));
      case "check":
        return this.#turn("check", attachment, served.digest, caller, async (signal) => {
          using sandbox = openSandbox(body.netns, peer.pid, optionsOf(served));
          return { printed: await serve({ ...call, signal, residence: sandbox === undefined ? {} : { sandbox } }, node) };
        });
      case "gc":
        return this.#collect(served, caller);
      case "status":
        this.#parts.assertReady?.();
        return { printed: await serve({ ...call, signal: caller }, node) };
    }
  }

  async #add(served: ServedCall, peerPid: number, signal: AbortSignal): Promise<Outcome> {
    await this.#collections.untilFree(served.attachment, signal);
    if (!isChained(served.call)) await this.#parts.newCluster?.untilMade(served, signal);
    signal.throwIfAborted();
    using sandbox = openSandbox(served.body.netns, peerPid, optionsOf(served));
    // Awaited here: the sandbox is closed when this function returns.
    return await addAttachment(served, sandbox, this.#parts.records, signal);
  }

  async #remove(served: ServedCall, peerPid: number): Promise<Outcome> {
    using sandbox = openSandboxToRemove(served.body.netns, peerPid, optionsOf(served));
    await removeAttachment(served, this.#parts.records, sandbox);
    return {};
  }

  async #collect(served: ServedCall, signal: AbortSignal): Promise<Outcome> {
    using collection = this.#collections.begin(served.attachment.network);
    await collectAttachments(served, {
      records: this.#parts.records,
      collection,
      finish: (record) => this.finish(record, () => collection.hasBegun(record.attachment)),
      signal,
    });
    return {};
  }

  /** Runs `work` when it is the attachment's turn, in this process and among those that work without it. */
  async #turn(
    kind: TurnKind,
    attachment: Attachment,
    digest: string,
    caller: AbortSignal,
    work: (signal: AbortSignal) => Promise<Outcome>,
  ): Promise<Outcome> {
    const key = attachmentKey(attachment);
    return this.#turns.run({ key, kind, digest, caller }, async (signal) => {
      const { network, containerId, ifname: interfaceName } = attachment;
      using _ = await this.#parts.locks?.take(lockKey({ network, containerId, interfaceName }), { signal });
      // Whoever held the lock until now may have made it, or made it again.
      await this.#parts.takeOverLocked?.(attachment);
      return await work(signal);
    });
  }
}

function traced<T>({ trace }: ServedCall, work: () => Promise<T>): Promise<T> {
  return trace === undefined ? work() : trace.run(work);
}

function optionsOf({ call }: ServedCall): SandboxOptions {
  return { allowsOwn: call.request.netnsOverride };
}

/** Equal ADDs are for the same sandbox too. */
function sandboxDigest({ digest, body: { netns } }: ServedCall): string {
  return `${digest} ${netns.path} ${netns.dev} ${netns.ino}`;
}
