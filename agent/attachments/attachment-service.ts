/**
 * Serves the CNI verbs in the agent (A§11.4, A§11.5): runs the flows of `main-plugin/`, journalled, one operation an attachment at a
 * time, and keeps the host from call to call.
 */

import type { AttachmentLocks } from "../../handover/attachment-locks.ts";
import type { CniCall } from "../../handover/call.ts";
import { parseCall, podOfCall } from "../../handover/call-body.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import { type AttachmentId, fileKey, lineKey } from "../../lib/cni/attachment-id.ts";
import type { SandboxOptions } from "../../lib/system/sandbox.ts";
import { NEVER, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { isChained, serve } from "../../main-plugin/serve.ts";
import type { History } from "../endpoints/history.ts";
import { openSandbox } from "../endpoints/sandbox.ts";
import { type Answer, answerOf, errorAnswer, resolveCall, type ServedCall, type Surroundings } from "./call.ts";
import type { DeleteQueue } from "./delete-queue.ts";
import { type AttachmentRecords, addAttachment, type Outcome, removeAttachment } from "./flows.ts";
import { Collections, collectAttachments } from "./gc.ts";
import type { NewCluster } from "./new-cluster.ts";
import { operationEntry } from "./operation-entry.ts";
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
  /** Between the agent and plugins that unplug an attachment without it (A§11.5). */
  readonly locks: Pick<AttachmentLocks, "take">;
  /** DELs that plugins queued (A§11.4 step 2). */
  readonly deletes: Pick<DeleteQueue, "settle">;
  /** What an ADD waits for in a cluster that somebody has just made. */
  readonly newCluster: Pick<NewCluster, "untilMade">;
  /** Removes an endpoint that no ADD made. @throws Error: it is repeated behind */
  readonly forgetRegistered: (record: EndpointRecord) => Promise<void>;
  /** Told of an ADD that failed, behind its answer. */
  readonly onFailedAdd?: ((served: ServedCall, error: unknown) => void) | undefined;
  /** Reasons why the agent is not ready (A§8.3), for the log of a STATUS. */
  readonly notReady: () => readonly string[];
  /** Where each operation is noted, for those who ask about it later. */
  readonly history?: History;
}

export class AttachmentService {
  readonly #parts: AttachmentParts;
  readonly #turns = new AttachmentTurns<Outcome>();
  readonly #collections = new Collections(() => this.#turns.busy(), SYSTEM_CLOCK);

  constructor(parts: AttachmentParts) {
    this.#parts = parts;
  }

  /** Serves one call. Never throws. */
  async serve(given: CniCall, context: CallContext): Promise<Answer> {
    let served: ServedCall | undefined;
    try {
      const call = resolveCall(given, this.#parts, context.traceparent);
      served = call;
      const { printed, endpointId } = await traced(call, () => this.#logged(call, () => this.#route(call, context)));
      return answerOf(printed, call.warnings(), endpointId);
    } catch (error) {
      if (served?.given.command === "ADD") this.#parts.onFailedAdd?.(served, error);
      return errorAnswer(error, served?.secrets);
    }
  }

  /**
   * Removes an attachment by its record, an endpoint that was registered included: an ADD that was killed, a DEL that could not be
   * finished, what a GC does not list, what a sweep finds lost.
   * An attachment that was added again since `judged` was looked at stays: nobody has judged that one.
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
      // This is not a runtime's call, and what was traced is over.
      const served = resolveCall(parseCall(text, "DEL"), { ...this.#parts, tracing: undefined });
      return this.#logged(served, () => this.#remove(served));
    });
  }

  /** Says whether there is a record of the attachment, or an operation on it. */
  isKnown(attachment: AttachmentId): boolean {
    return this.#turns.isBusy(lineKey(attachment)) || this.#parts.records.find(attachment) !== undefined;
  }

  async #logged(served: ServedCall, work: () => Promise<Outcome>): Promise<Outcome> {
    const { given, log } = served;
    const { command } = given;
    const noteEnd = this.#noting(served);
    // Writes at once, so that the log also names an operation that is killed.
    log.writeNow("info", `${command} begins`);
    try {
      const outcome = await work();
      log.info(`${command} done`);
      noteEnd(undefined);
      return outcome;
    } catch (error) {
      log.error(`${command} failed`, { error });
      noteEnd(error);
      throw error;
    } finally {
      await log.flush();
    }
  }

  /** @returns what notes the end of the operation */
  #noting(served: ServedCall): (error: unknown) => void {
    const { records, history } = this.#parts;
    if (history === undefined) return () => undefined;
    const find = () => (served.attachment.containerId === "" ? undefined : records.find(served.attachment));
    const [before, begunAt, begunMs] = [find(), SYSTEM_CLOCK.date(), performance.now()];
    return (error) => {
      const milliseconds = performance.now() - begunMs;
      const entry = operationEntry({ served, before, after: find(), begunAt, milliseconds, error });
      if (entry !== undefined) history.note(entry);
    };
  }

  async #route(served: ServedCall, { peer, signal: caller }: CallContext): Promise<Outcome> {
    const { deletes, notReady } = this.#parts;
    const { attachment, call, host, given } = served;
    switch (given.command) {
      case "ADD":
        this.#collections.addCame(attachment);
        await deletes.settle(attachment, podOfCall(given));
        return this.#turn("add", attachment, sandboxDigest(served), caller, (signal) => this.#add(served, peer.pid, signal));
      case "DEL":
        return this.#turn("del", attachment, served.digest, caller, () => this.#remove(served));
      case "CHECK":
        return this.#turn("check", attachment, served.digest, caller, async (signal) => {
          using sandbox = openSandbox(given.netns, peer.pid, optionsOf(served));
          return { printed: await serve({ ...call, signal, sandbox }, host) };
        });
      case "GC":
        return this.#collect(served, caller);
      case "STATUS":
        logNotReady(served, notReady());
        return { printed: await serve({ ...call, signal: caller }, host) };
    }
  }

  async #add(served: ServedCall, peerPid: number, signal: AbortSignal): Promise<Outcome> {
    await this.#collections.untilFree(served.attachment, signal);
    if (!isChained(served.call)) await this.#parts.newCluster.untilMade(served, signal);
    signal.throwIfAborted();
    using sandbox = openSandbox(served.given.netns, peerPid, optionsOf(served));
    // Awaits here, because the sandbox is closed when this function returns.
    return await addAttachment({ served, sandbox, records: this.#parts.records }, signal);
  }

  async #remove(served: ServedCall): Promise<Outcome> {
    await removeAttachment({ served, records: this.#parts.records });
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

  /** Runs `work` when it is the attachment's turn, in this process and among plugins that unplug it. */
  async #turn(
    kind: TurnKind,
    attachment: AttachmentId,
    digest: string,
    caller: AbortSignal,
    work: (signal: AbortSignal) => Promise<Outcome>,
  ): Promise<Outcome> {
    return this.#turns.run({ key: lineKey(attachment), kind, digest, caller }, async (signal) => {
      using _ = await this.#parts.locks.take(fileKey(attachment), { signal });
      return await work(signal);
    });
  }
}

function logNotReady({ log }: ServedCall, reasons: readonly string[]): void {
  // No reason to fail: that would make the whole node NotReady and take its running pods away. New pods are kept away by the condition
  // NetworkUnavailable, which follows the same readiness (docs/project/decisions.md).
  if (reasons.length > 0) log.error(`the agent is not ready: ${reasons.join("; ")}`);
}

function traced<T>({ trace }: ServedCall, work: () => Promise<T>): Promise<T> {
  return trace === undefined ? work() : trace.run(work);
}

function optionsOf({ call }: ServedCall): SandboxOptions {
  return { allowsOwn: call.request.netnsOverride };
}

/** Distinguishes calls by their sandbox too: equal ADDs are for the same one. */
function sandboxDigest({ digest, given: { netns } }: ServedCall): string {
  return `${digest} ${netns.path} ${netns.dev} ${netns.ino}`;
}
