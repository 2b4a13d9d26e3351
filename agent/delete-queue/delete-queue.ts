/**
 * Carries out the DELs that plugins left while the agent was away (A§11.5): at the start, and as long as the agent lives, since a plugin
 * may have decided to leave one just before the socket was there. A file goes when its DEL has succeeded, never before.
 */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { type BackOff, type Clock, pauseAfter, SYSTEM_CLOCK } from "../../lib/system/clock.ts";
import { DirectoryEvents } from "../../lib/system/directory-events.ts";
import type { Attachment } from "../endpoints/record/endpoint-record.ts";
import { keyOf, parseEntry, type QueuedDelete } from "./queue-entry.ts";
import type { QueueEntry, QueueFiles } from "./queue-files.ts";

/** Where nothing is heard of the directory (A-D02). */
const LOOK_EVERY_MS = 5_000;
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
  readonly files: QueueFiles;
  /** One DEL, by the body of its call, as `AttachmentService.serve` does it. */
  serve(body: unknown): Promise<{ readonly status: number; readonly body: string }>;
  /** When the agent added the attachment; `undefined` when it does not know it. */
  addedAt(attachment: Attachment): Moment | undefined;
  readonly log: { info(message: string): void; error(message: string): void };
  readonly clock?: Clock;
}

interface Failure {
  readonly times: number;
  /** On the clock; not tried again before. */
  readonly until: number;
}

export class DeleteQueue {
  readonly #parts: DeleteQueueParts;
  readonly #clock: Clock;
  readonly #events: DirectoryEvents;
  readonly #failures = new Map<string, Failure>();
  /** DELs under way, by the key of their attachment. */
  readonly #running = new Map<string, Promise<void>>();
  #isStopped = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(parts: DeleteQueueParts) {
    this.#parts = parts;
    this.#clock = parts.clock ?? SYSTEM_CLOCK;
    this.#events = new DirectoryEvents(parts.files.directory);
  }

  /** DELs that wait, those that are put off included. */
  get size(): number {
    return this.#parts.files.list().entries.length;
  }

  /** Begins to work and to watch, for life. */
  start(): void {
    this.#parts.files.makeDirectory();
    this.#loop = this.#watch();
  }

  /** Waits for the DELs under way; the others stay where they are. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#events.close();
    await this.#loop;
  }

  /** Everything that waits and is not put off, oldest first. */
  async drain(): Promise<void> {
    const { entries, foreign } = this.#parts.files.list();
    for (const path of foreign) this.#parts.log.error(`a file that is none of the delete queue's is kept as ${path}`);
    const due = entries.filter(({ key }) => this.#clock.now() >= (this.#failures.get(key)?.until ?? 0));
    for (let at = 0; at < due.length && !this.#isStopped; at += WIDTH) {
      await Promise.all(due.slice(at, at + WIDTH).map((entry) => this.#carryOut(entry).catch(() => {})));
    }
    for (const key of this.#failures.keys()) if (!entries.some((entry) => entry.key === key)) this.#failures.delete(key);
  }

  /**
   * The DEL of one attachment, now: its ADD comes next (A§11.4).
   * @throws TortieError `queued-delete-failed`
   */
  async carryOutFor(attachment: Attachment): Promise<void> {
    const entry = this.#parts.files.find(keyOf(attachment));
    if (entry !== undefined) await this.#carryOut(entry);
  }

  async #watch(): Promise<void> {
    while (!this.#isStopped) {
      // Before the look: what appears between the two is seen by one of them.
      this.#events.watch();
      try {
        await this.drain();
      } catch (error) {
        this.#parts.log.error(`the delete queue cannot be read: ${messageOf(error)}`);
      }
      if (!this.#isStopped) await this.#events.next(this.#pause());
    }
  }

  #pause(): number {
    const soonest = Math.min(...[...this.#failures.values()].map(({ until }) => until - this.#clock.now()), LOOK_EVERY_MS);
    return Math.max(soonest, 1);
  }

  #carryOut(entry: QueueEntry): Promise<void> {
    const { key } = entry;
    const running = this.#running.get(key) ?? this.#carryOutOnce(entry).finally(() => this.#running.delete(key));
    this.#running.set(key, running);
    return running;
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
    const answer = await this.#parts.serve(found.body);
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

  #putOff({ key }: QueueEntry, { containerId }: Attachment, problem: string): TortieError {
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
function readEntry(files: QueueFiles, entry: QueueEntry): QueuedDelete | { readonly problem: string } | undefined {
  const text = files.read(entry);
  if (text === undefined) return undefined;
  try {
    return parseEntry(text, entry.key);
  } catch (error) {
    return { problem: messageOf(error) };
  }
}
