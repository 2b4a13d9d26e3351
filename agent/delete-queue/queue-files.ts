/**
 * DELs that wait for the agent (A§11.5): `deletequeue/<sha256 of the attachment>.json`, the body of the call as it would have gone over the
 * socket. One file an attachment, renamed into place, so that a repeated DEL changes nothing and no reader sees half of one.
 */

import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  type Stats,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { unlessMissing } from "../../lib/system/files.ts";
import { tryLockFile, tryShareFile } from "../../lib/system/flock.ts";

/** Most files that wait. */
const MAX_ENTRIES = 4096;

const NAME = /^[0-9a-f]{64}\.json$/;
const LOCK = "lock";
const BAD = "bad";
const LOCK_LIMIT_MS = 1_000;
const LOCK_PAUSE_MS = 5;
/** A writer that was killed left it. */
const OLD_TEMPORARY_MS = 60_000;

/** A file as it was found: a newer one in its place has another identity. */
export interface QueueEntry {
  /** Of the attachment. */
  readonly key: string;
  readonly identity: string;
  /** Milliseconds since 1970 of its last change. */
  readonly queuedAt: number;
}

export class QueueFiles {
  readonly #directory: string;
  readonly #limit: number;

  /** @param directory made when the first file is written @param limit of files that wait; for tests */
  constructor(directory: string, limit = MAX_ENTRIES) {
    this.#directory = directory;
    this.#limit = limit;
  }

  get directory(): string {
    return this.#directory;
  }

  makeDirectory(): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
  }

  /**
   * Survives a crash of the machine's processes and, where the directory is on a disk, of the machine.
   * @returns `false` when the queue is full @throws an error of node:fs
   */
  async write(key: string, body: string): Promise<boolean> {
    this.makeDirectory();
    const path = this.#pathOf(key);
    const isThere = statusOf(path) !== undefined;
    if (!isThere && this.#names().filter((name) => NAME.test(name)).length >= this.#limit) return false;
    using _ = await inTime(() => tryShareFile(join(this.#directory, LOCK)));
    const temporary = `${path}.${process.pid}.tmp`;
    try {
      writeFileSync(temporary, body, { mode: 0o600, flush: true });
      renameSync(temporary, path);
    } catch (error) {
      unlessMissing(() => unlinkSync(temporary));
      throw error;
    }
    const directory = openSync(this.#directory, "r");
    try {
      fsyncSync(directory);
    } finally {
      closeSync(directory);
    }
    return true;
  }

  /** What waits, oldest first. Files that are none of the queue's are moved to `bad/`. @returns also the names of those */
  list(): { readonly entries: readonly QueueEntry[]; readonly foreign: readonly string[] } {
    const entries: QueueEntry[] = [];
    const foreign: string[] = [];
    for (const name of this.#names()) {
      if (name === LOCK || name === BAD) continue;
      const status = statusOf(join(this.#directory, name));
      if (status === undefined) continue;
      const key = name.slice(0, -".json".length);
      if (NAME.test(name)) entries.push({ key, identity: identityOf(status), queuedAt: status.mtimeMs });
      else if (!name.endsWith(".tmp") || Date.now() - status.mtimeMs > OLD_TEMPORARY_MS) foreign.push(this.#setAside(name));
    }
    return { entries: entries.sort((one, other) => one.queuedAt - other.queuedAt), foreign };
  }

  find(key: string): QueueEntry | undefined {
    const status = statusOf(this.#pathOf(key));
    return status === undefined ? undefined : { key, identity: identityOf(status), queuedAt: status.mtimeMs };
  }

  /** @returns `undefined` when it is gone */
  read({ key }: QueueEntry): string | undefined {
    return unlessMissing(() => readFileSync(this.#pathOf(key), "utf8"));
  }

  /** Unless another DEL of the attachment was queued meanwhile. */
  async remove({ key, identity }: QueueEntry): Promise<void> {
    // No plugin puts a file in its place between the look and the removal.
    using _ = await inTime(() => tryLockFile(join(this.#directory, LOCK)));
    const status = statusOf(this.#pathOf(key));
    if (status !== undefined && identityOf(status) === identity) unlessMissing(() => unlinkSync(this.#pathOf(key)));
  }

  /** Keeps an entry that makes no sense, for a person to look at. @returns where it is now */
  setAsideBad({ key }: QueueEntry): string {
    return this.#setAside(`${key}.json`);
  }

  #setAside(name: string): string {
    const bad = join(this.#directory, BAD);
    mkdirSync(bad, { recursive: true, mode: 0o700 });
    const target = join(bad, `${name}.${Date.now()}`);
    unlessMissing(() => renameSync(join(this.#directory, name), target));
    return target;
  }

  #names(): readonly string[] {
    return unlessMissing(() => readdirSync(this.#directory)) ?? [];
  }

  #pathOf(key: string): string {
    return join(this.#directory, `${key}.json`);
  }
}

function statusOf(path: string): Stats | undefined {
  return unlessMissing(() => statSync(path));
}

function identityOf({ dev, ino, mtimeMs }: Stats): string {
  return `${dev}:${ino}:${mtimeMs}`;
}

/**
 * The lock orders writers and the agent's removals. A process that does not get it in time goes on without it: files are replaced whole.
 */
async function inTime(lock: () => Disposable | undefined): Promise<Disposable | undefined> {
  const end = performance.now() + LOCK_LIMIT_MS;
  for (;;) {
    const held = lock();
    if (held !== undefined || performance.now() >= end) return held;
    await Bun.sleep(LOCK_PAUSE_MS);
  }
}
