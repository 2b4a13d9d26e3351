/** Makes what plugins did while the agent was away the agent's: DELs that wait for it, and attachments that it takes over (A§11.5, A§11.6). */
import type { AttachmentLocks } from "../../handover/attachment-locks.ts";
import type { CniCall } from "../../handover/call.ts";
import { type DeleteQueueFiles, DirectRecords, type QueuedDelete, type QueueEntry } from "../../handover/left-files.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import type { RunDirectory } from "../../handover/run-directory.ts";
import { type AttachmentId, fileKey } from "../../lib/cni/attachment-id.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import { DirectoryWatch } from "../../lib/system/directory-events.ts";
import { type BackOff, type Clock, pauseAfter, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import type { EndpointManager } from "../endpoints/manager.ts";

/** Where nothing is heard of the directory (A-D02). */
const LOOK_EVERY_MS = 5_000;

export interface AgentAwayParts extends Pick<AdoptionParts, "log" | "onUnderWay">, Pick<DeleteQueueParts, "serve"> {
  readonly run: Pick<RunDirectory, "direct">;
  readonly locks: AttachmentLocks;
  readonly queue: DeleteQueueFiles;
  readonly manager: Pick<EndpointManager, "adopt" | "find">;
}

export class AgentAway {
  readonly adoption: Adoption;
  readonly deletes: DeleteQueue;

  constructor({ run, locks, queue, manager, onUnderWay, serve, log }: AgentAwayParts) {
    this.adoption = new Adoption({ records: new DirectRecords(run.direct), locks, adopter: manager, onUnderWay, log });
    const addedAt = (attachment: AttachmentId) => momentOf(manager.find(attachment));
    this.deletes = new DeleteQueue({ files: queue, serve, addedAt, log });
  }

  /** Adopts for as long as the agent lives: a plugin may have decided to do without it just before it was there. */
  start(): void {
    this.adoption.start();
    this.deletes.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.adoption.stop(), this.deletes.stop()]);
  }
}

function momentOf({ committedAt, committedBootMs }: Partial<EndpointRecord> = {}): Moment | undefined {
  return committedAt === undefined ? undefined : { wallMs: Date.parse(committedAt), bootMs: committedBootMs };
}

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

export interface AdoptionParts {
  readonly records: DirectRecords;
  readonly locks: Pick<AttachmentLocks, "take" | "tryTake">;
  /**
   * Makes the attachment an endpoint, or replaces what is known of it. What an ADD left whose plugin was killed is removed as the agent
   * removes its own. Durable when it returns.
   */
  readonly adopter: Pick<EndpointManager, "adopt">;
  /** Called at each look with the records of attachments that plugins work on just now. */
  readonly onUnderWay?: ((records: readonly EndpointRecord[]) => void) | undefined;
  readonly log: Pick<AgentLog, "info" | "error">;
}

/**
 * Takes over what plugins attached without the agent (A§11.6): every record at its start, and later each one that a plugin writes which
 * had begun before the agent was there.
 */
export class Adoption {
  readonly #parts: AdoptionParts;
  readonly #watch: DirectoryWatch;

  constructor(parts: AdoptionParts) {
    this.#parts = parts;
    this.#watch = new DirectoryWatch(parts.records.directory);
  }

  /** Takes over every attachment that no plugin works on just now. */
  async all(): Promise<void> {
    const { records, locks, onUnderWay, log } = this.#parts;
    const found = records.list();
    const underWay: EndpointRecord[] = [];
    for (const { path, reason } of found.unreadable) log.error(`a record of direct mode cannot be read and is kept as ${path}: ${reason}`);
    for (const record of found.records) {
      const { attachment } = record;
      using lock = locks.tryTake(fileKey(attachment));
      if (lock === undefined) underWay.push(record);
      else await this.#adopt(attachment);
    }
    onUnderWay?.(underWay);
  }

  /**
   * Takes over one attachment, before the agent serves a call of it; waits for a plugin that works on it.
   * @throws TortieError `attachment-locked`; the signal's reason
   */
  async of(attachment: AttachmentId, signal: AbortSignal): Promise<void> {
    if (!this.#parts.records.has(attachment)) return;
    using _ = await this.#parts.locks.take(fileKey(attachment), { signal });
    await this.#adopt(attachment);
  }

  /** Does the same for a caller that holds the attachment's lock. */
  async locked(attachment: AttachmentId): Promise<void> {
    if (this.#parts.records.has(attachment)) await this.#adopt(attachment);
  }

  /** Begins to watch, for life. */
  start(): void {
    const { records, log } = this.#parts;
    records.makeDirectory();
    const onError = (error: unknown) => log.error(`the records of direct mode cannot be read: ${messageOf(error)}`);
    // Looks again after a pause at a record whose lock was held.
    this.#watch.start({ look: () => this.all(), onError, pauseMs: () => LOOK_EVERY_MS });
  }

  stop(): Promise<void> {
    return this.#watch.stop();
  }

  /** Reads the record again under the attachment's lock: it may have been finished or removed since the look without it. */
  async #adopt(attachment: AttachmentId): Promise<void> {
    const { records, adopter, log } = this.#parts;
    try {
      const direct = records.read(attachment);
      if (direct === undefined) return;
      await adopter.adopt(direct);
      records.remove(attachment);
      log.info(`container ${attachment.containerId}, attached in direct mode, is taken over`);
    } catch (error) {
      log.error(`container ${attachment.containerId}, attached in direct mode, cannot be taken over: ${messageOf(error)}`);
    }
  }
}

const REPETITION: BackOff = { base: 1_000, longest: 60_000 };
/** DELs under way at once; their links go together. */
const WIDTH = 64;

/** By two clocks: the time of day may be set back between an ADD and its DEL, and the other one is not in files of earlier versions. */
export interface Moment {
  /** Milliseconds since 1970. */
  readonly wallMs: number;
  /** Milliseconds since the machine's boot. */
  readonly bootMs: number | undefined;
}

export interface DeleteQueueParts {
  readonly files: DeleteQueueFiles;
  /** Serves one DEL, as `AttachmentService.serve` does. */
  serve(call: CniCall): Promise<{ readonly status: number; readonly body: string }>;
  /** Says when the agent added the attachment; `undefined` when it does not know it. */
  addedAt(attachment: AttachmentId): Moment | undefined;
  readonly log: Pick<AgentLog, "info" | "error">;
  readonly clock?: Clock;
}

interface Failure {
  readonly times: number;
  /** On the clock; not tried again before. */
  readonly until: number;
}

/**
 * Carries out the DELs that plugins left while the agent was away (A§11.5): at the start, and as long as the agent lives, since a plugin
 * may have decided to leave one just before the socket was there. A file goes when its DEL has succeeded, never before.
 */
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
   * Carries out the DEL of one attachment now, because its ADD comes next (A§11.4).
   * @throws TortieError `queued-delete-failed`
   */
  async carryOutFor(attachment: AttachmentId): Promise<void> {
    const entry = this.#parts.files.find(fileKey(attachment));
    if (entry !== undefined) await this.#carryOut(entry);
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
    const addedAt = this.#parts.addedAt(found.attachment);
    if (addedAt !== undefined && isLater(addedAt, { wallMs: entry.queuedAt, bootMs: found.queuedBootMs })) {
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

function isLater(one: Moment, other: Moment): boolean {
  const isByBoot = one.bootMs !== undefined && other.bootMs !== undefined;
  return isByBoot ? one.bootMs > other.bootMs : one.wallMs > other.wallMs;
}

/** @returns `undefined` when the file is gone */
function readEntry(files: DeleteQueueFiles, entry: QueueEntry): QueuedDelete | { readonly problem: string } | undefined {
  try {
    return files.read(entry);
  } catch (error) {
    return { problem: messageOf(error) };
  }
}
