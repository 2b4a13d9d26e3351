/** Carries out the DELs that plugins queued while the agent was unavailable (A§11.5), for as long as the agent lives. */
import type { AttachmentLocks } from "../../handover/attachment-locks.ts";
import type { CniCall } from "../../handover/call.ts";
import { podOfCall } from "../../handover/call-body.ts";
import type { DeleteQueueFiles, QueuedDelete, QueueEntry } from "../../handover/delete-queue-files.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import { type AttachmentId, fileKey } from "../../lib/cni/attachment-id.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import { DirectoryWatch } from "../../lib/system/directory-events.ts";
import { type BackOff, type Clock, endsWithin, pauseAfter, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";

/** Pause between two looks, in case the kernel says nothing of the directory (A-D02). */
const LOOK_EVERY_MS = 5_000;

/**
 * Takes the attachment's lock, as `HoldAttachment` says, so that no plugin works on it without the agent.
 * @returns `undefined` when a DEL of it waits in the queue
 */
export async function holdAttachment(
  { locks, queue }: { readonly locks: Pick<AttachmentLocks, "take">; readonly queue: Pick<DeleteQueueFiles, "find"> },
  attachment: AttachmentId,
  signal: AbortSignal,
): Promise<Disposable | undefined> {
  const lock = await locks.take(fileKey(attachment), { signal });
  if (queue.find(fileKey(attachment)) === undefined) return lock;
  lock[Symbol.dispose]();
  return undefined;
}

const REPETITION: BackOff = { base: 1_000, longest: 60_000 };
/** DELs under way at once; their links go together. */
const WIDTH = 64;

/** Longest wait of an ADD for the queued DELs of other pods. */
const OTHERS_LIMIT_MS = 2_000;

export interface DeleteQueueParts {
  readonly files: DeleteQueueFiles;
  /** Serves one DEL, as `AttachmentService.serve` does. */
  serve(call: CniCall): Promise<{ readonly status: number; readonly body: string }>;
  /** The agent's record of an attachment. */
  find(attachment: AttachmentId): EndpointRecord | undefined;
  readonly log: Pick<AgentLog, "info" | "error">;
  readonly clock?: Clock;
}

interface Failure {
  readonly times: number;
  /** On the clock; not tried again before. */
  readonly until: number;
}

/** A file goes when its DEL has succeeded, never before. A plugin may queue one just before the socket is there, so the directory is watched. */
export class DeleteQueue {
  readonly #parts: DeleteQueueParts;
  readonly #clock: Clock;
  readonly #watch: DirectoryWatch;
  readonly #failures = new Map<string, Failure>();
  /** DELs under way, by the key of their attachment. */
  readonly #running = new Map<string, Promise<void>>();

  constructor(parts: DeleteQueueParts) {
    this.#parts = parts;
    this.#clock = parts.clock ?? SYSTEM_CLOCK;
    this.#watch = new DirectoryWatch(parts.files.directory);
  }

  /** DELs that wait, those that are put off included. */
  get size(): number {
    return this.#parts.files.list().entries.length;
  }

  /** Begins to work and to watch, for life. */
  start(): void {
    const { files, log } = this.#parts;
    files.makeDirectory();
    const onError = (error: unknown) => log.error(`the delete queue cannot be read: ${messageOf(error)}`);
    this.#watch.start({ look: () => this.drain(), onError, pauseMs: () => this.#pause() });
  }

  /** Waits for the DELs under way; the others stay where they are. */
  stop(): Promise<void> {
    return this.#watch.stop();
  }

  /** Carries out everything that waits and is not put off, oldest first. */
  async drain(): Promise<void> {
    const { entries, foreign } = this.#parts.files.list();
    for (const path of foreign) this.#parts.log.error(`a file that does not belong to the delete queue is kept as ${path}`);
    const due = entries.filter(({ key }) => this.#clock.now() >= (this.#failures.get(key)?.until ?? 0));
    for (let at = 0; at < due.length && !this.#watch.isStopped; at += WIDTH) {
      await Promise.all(due.slice(at, at + WIDTH).map((entry) => this.#carryOut(entry).catch(() => {})));
    }
    for (const key of this.#failures.keys()) if (!entries.some((entry) => entry.key === key)) this.#failures.delete(key);
  }

  /**
   * Carries out, before an ADD, the DELs of its attachment and of its pod, whose address it may want, and gives those of others a moment: the
   * pool may be full without them.
   * @param pod "namespace/name"; absent for a plain container
   * @throws TortieError `queued-delete-failed` naming a DEL of the attachment or the pod
   */
  async settle(attachment: AttachmentId, pod: string | undefined): Promise<void> {
    const { entries } = this.#parts.files.list();
    if (entries.length === 0) return;
    const key = fileKey(attachment);
    const isOwn = (entry: QueueEntry) => entry.key === key || (pod !== undefined && this.#podOf(entry) === pod);
    await Promise.all(entries.filter(isOwn).map((entry) => this.#carryOut(entry)));
    await endsWithin(this.#clock, OTHERS_LIMIT_MS, this.drain());
  }

  #podOf(entry: QueueEntry): string | undefined {
    const found = readEntry(this.#parts.files, entry);
    return found === undefined || "problem" in found ? undefined : (this.#parts.find(found.attachment)?.pod ?? podOfCall(found.call));
  }

  #pause(): number {
    const soonest = Math.min(...[...this.#failures.values()].map(({ until }) => until - this.#clock.now()), LOOK_EVERY_MS);
    return Math.max(soonest, 1);
  }

  #carryOut(entry: QueueEntry): Promise<void> {
    const { key } = entry;
    return this.#running.getOrInsertComputed(key, () => this.#carryOutOnce(entry).finally(() => this.#running.delete(key)));
  }

  async #carryOutOnce(entry: QueueEntry): Promise<void> {
    const { files, log } = this.#parts;
    const found = readEntry(files, entry);
    if (found === undefined) return;
    if ("problem" in found) return this.#setAside(entry, found.problem);
    if (isAddedSince(this.#parts.find(found.attachment), entry, found)) {
      log.info(`container ${found.attachment.containerId} was added after its queued DEL, which is dropped`);
      return files.remove(entry);
    }
    const answer = await this.#parts.serve(found.call);
    if (answer.status === 400) return this.#setAside(entry, answer.body);
    if (answer.status !== 200) throw this.#putOff(entry, found.attachment, answer.body);
    this.#failures.delete(entry.key);
    await files.remove(entry);
    log.info(`the queued DEL of container ${found.attachment.containerId} is done`);
  }

  #setAside(entry: QueueEntry, problem: string): void {
    this.#failures.delete(entry.key);
    const path = this.#parts.files.setAsideBad(entry);
    this.#parts.log.error(`a queued DEL makes no sense and is kept as ${path}: ${problem}`);
  }

  #putOff({ key }: QueueEntry, { containerId }: AttachmentId, problem: string): TortieError {
    const times = (this.#failures.get(key)?.times ?? 0) + 1;
    const pause = pauseAfter(times, REPETITION, this.#clock);
    this.#failures.set(key, { times, until: this.#clock.now() + pause });
    const message = `the queued DEL of container ${containerId} failed ${times} times: ${problem.replaceAll(/\s+/g, " ")}`;
    this.#parts.log.error(`${message}; again in ${Math.round(pause / 1000)} s`);
    return new TortieError("queued-delete-failed", message);
  }
}

/** Compares by the clock of this boot where both sides have it: the time of day may be set back between an ADD and its DEL. */
function isAddedSince(
  { committedAt, committedBootMs }: Partial<EndpointRecord> = {},
  { queuedAt }: QueueEntry,
  { queuedBootMs }: QueuedDelete,
) {
  if (committedAt === undefined) return false;
  if (committedBootMs !== undefined && queuedBootMs !== undefined) return committedBootMs > queuedBootMs;
  return Date.parse(committedAt) > queuedAt;
}

/** @returns `undefined` when the file is gone */
function readEntry(files: DeleteQueueFiles, entry: QueueEntry): QueuedDelete | { readonly problem: string } | undefined {
  try {
    return files.read(entry);
  } catch (error) {
    return { problem: messageOf(error) };
  }
}
