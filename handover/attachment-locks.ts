/**
 * Locks of attachments, between the agent and plugins that work without it: never do two processes change one attachment (A§11.6).
 *
 * 4096 files, chosen by the first three digits of an attachment's digest: among 110 plugins at once without the agent hardly a pair waits
 * for each other, where of 256 files 23 pairs would. Files are never removed: two processes could then hold the same lock. Attachments of
 * one process that fall on one file hold it together: who has many at once, the agent, sees itself that each of its attachments has one
 * operation at a time.
 */
import { TortieError } from "../lib/errors/errors.ts";
import { systemErrorCode } from "../lib/system/errno.ts";
import { isThere } from "../lib/system/files.ts";
import { lockHolder, tryLockFile } from "../lib/system/flock.ts";

/** Of a digest: 16^3 files. */
const DIGITS = 3;
const WAIT_LIMIT_MS = 30_000;
const SHORTEST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 50;

/** Errors of a file system that takes no new file from anybody. */
const CANNOT_BE_MADE: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EROFS"]);

/** A lock that this process has. */
interface Held {
  readonly lock: Disposable;
  holders: number;
}

export interface AttachmentLockOptions {
  /** The longest wait; 30 s when absent. */
  readonly limitMs?: number;
  /** Ends the wait when it aborts. */
  readonly signal?: AbortSignal;
  /** Told once when the lock is not free, with a sentence that says so. */
  readonly onWait?: (message: string) => void;
}

export class AttachmentLocks {
  readonly #directory: string;
  readonly #held = new Map<string, Held>();

  /** @param directory of the lock files; made when it is missing */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * @param digest of the attachment (attachment-key.ts)
   * @throws TortieError `attachment-locked`; the signal's reason; Error when the file cannot be opened
   */
  async take(digest: string, options: AttachmentLockOptions = {}): Promise<Disposable> {
    const { limitMs = WAIT_LIMIT_MS, signal, onWait } = options;
    const name = digest.slice(0, DIGITS);
    const free = this.#try(name);
    if (free !== undefined) return free;

    const path = this.#pathOf(name);
    const end = performance.now() + limitMs;
    onWait?.(`waiting for the attachment's lock ${path}, held by ${lockHolder(path)}`);
    for (let pause = SHORTEST_PAUSE_MS; ; pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)) {
      signal?.throwIfAborted();
      const lock = this.#try(name);
      if (lock !== undefined) return lock;
      const left = end - performance.now();
      if (left <= 0) throw new TortieError("attachment-locked", `waited ${limitMs / 1000} s for ${path}, held by ${lockHolder(path)}`);
      await Bun.sleep(Math.min(pause, left));
    }
  }

  /** @returns `undefined` when another process has it */
  tryTake(digest: string): Disposable | undefined {
    return this.#try(digest.slice(0, DIGITS));
  }

  #try(name: string): Disposable | undefined {
    const held = this.#held.get(name) ?? this.#lock(name);
    if (held === undefined) return undefined;
    held.holders++;
    let isOurs = true;
    return {
      [Symbol.dispose]: () => {
        if (!isOurs) return;
        isOurs = false;
        held.holders--;
        if (held.holders > 0) return;
        this.#held.delete(name);
        held.lock[Symbol.dispose]();
      },
    };
  }

  #lock(name: string): Held | undefined {
    const lock = this.#tryFile(this.#pathOf(name));
    if (lock === undefined) return undefined;
    const held = { lock, holders: 0 };
    this.#held.set(name, held);
    return held;
  }

  /** A lock whose file cannot be made for want of room has no holder: a DEL must not fail because the run directory is full. */
  #tryFile(path: string): Disposable | undefined {
    try {
      return tryLockFile(path);
    } catch (error) {
      if (!CANNOT_BE_MADE.has(systemErrorCode(error) ?? "") || isThere(path)) throw error;
      return { [Symbol.dispose]: () => undefined };
    }
  }

  #pathOf(name: string): string {
    return `${this.#directory}/${name}`;
  }
}
