/** Keeps the DELs that plugins leave for an agent that is unavailable, one file each (A§11.5). Files are replaced whole: no reader sees half of one. */
import { mkdirSync, readdirSync, readFileSync, renameSync, type Stats, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { type AttachmentId, fileKey } from "../lib/cni/attachment-id.ts";
import { field, isNumber, isText, optional, parseObject } from "../lib/json/decode.ts";
import { unlessMissing } from "../lib/system/files.ts";
import { tryLockFile, tryShareFile } from "../lib/system/flock.ts";
import { bootTimeMs } from "../lib/system/libc.ts";
import { writeWhole } from "../lib/system/write-whole.ts";
import { type CniCall, readSettings } from "./call.ts";
import { callFields, decodeCall } from "./call-body.ts";
import { readBootId } from "./run-directory.ts";

const NAME = /^[0-9a-f]{64}\.json$/;
const BAD = "bad";
const DIRECTORY_MODE = 0o700;

/** Most files that wait. */
const MAX_ENTRIES = 4096;

const LOCK = "lock";
const LOCK_LIMIT_MS = 1_000;
const LOCK_PAUSE_MS = 5;
/** Age of a temporary file whose writer was killed. */
const OLD_TEMPORARY_MS = 60_000;

/** A file as it was found: a newer one in its place has another identity. */
export interface QueueEntry {
  /** Of the attachment. */
  readonly key: string;
  readonly identity: string;
  /** Milliseconds since 1970 of its last change. */
  readonly queuedAt: number;
}

/** Content of a file. */
export interface QueuedDelete {
  readonly attachment: AttachmentId;
  readonly call: CniCall;
  /** Milliseconds since the machine's boot; absent for a DEL of an earlier boot. */
  readonly queuedBootMs: number | undefined;
}

export class DeleteQueueFiles {
  readonly directory: string;
  readonly #limit: number;

  /** @param directory made when the first file is written @param limit of files that wait; for tests */
  constructor(directory: string, limit = MAX_ENTRIES) {
    this.directory = directory;
    this.#limit = limit;
  }

  makeDirectory(): void {
    mkdirSync(this.directory, { recursive: true, mode: DIRECTORY_MODE });
  }

  /**
   * Queues a DEL; a repeated one replaces the first. Survives a crash of the machine's processes and, where the directory is on a disk, of
   * the machine.
   * @returns `false` when the queue is full @throws an error of node:fs
   */
  async write(key: string, call: CniCall): Promise<boolean> {
    this.makeDirectory();
    if (this.#statusOf(key) === undefined && this.#names().filter((one) => one.key !== undefined).length >= this.#limit) return false;
    using _ = await this.#inTime(tryShareFile);
    const text = JSON.stringify({ ...callFields(call), queuedBootMs: bootTimeMs(), bootId: readBootId() });
    writeWhole(this.#pathOf(key), text, 0o600, true);
    return true;
  }

  /** Lists what waits, oldest first. Moves files that do not belong to the queue to `bad/`. @returns also the names of those */
  list(): { readonly entries: readonly QueueEntry[]; readonly foreign: readonly string[] } {
    const entries: QueueEntry[] = [];
    const foreign: string[] = [];
    for (const { name, key } of this.#names()) {
      if (name === LOCK) continue;
      const status = unlessMissing(() => statSync(join(this.directory, name)));
      if (status === undefined) continue;
      if (key !== undefined) entries.push(entryOf(key, status));
      else if (!name.endsWith(".tmp") || Date.now() - status.mtimeMs > OLD_TEMPORARY_MS) foreign.push(this.#setAside(name));
    }
    return { entries: entries.sort((one, other) => one.queuedAt - other.queuedAt), foreign };
  }

  find(key: string): QueueEntry | undefined {
    const status = this.#statusOf(key);
    return status === undefined ? undefined : entryOf(key, status);
  }

  /** @returns `undefined` when it is gone @throws Error when it is not the DEL of the attachment that the file is named after */
  read({ key }: QueueEntry): QueuedDelete | undefined {
    const text = unlessMissing(() => readFileSync(this.#pathOf(key), "utf8"));
    if (text === undefined) return undefined;
    const body = parseObject(text);
    const network = readSettings(field(body, "stdin", isText))?.network ?? "";
    const attachment = { network, containerId: field(body, "containerId", isText), ifname: field(body, "ifname", isText) };
    if (fileKey(attachment) !== key) throw new Error("it is the DEL of another attachment");
    const { queuedBootMs, bootId } = { ...optional(body, "queuedBootMs", isNumber), ...optional(body, "bootId", isText) };
    const call = decodeCall(body, "DEL");
    if (bootId === undefined || bootId === readBootId()) return { attachment, call, queuedBootMs };
    // No sandbox outlives a boot, and the inode of this one may be another's now.
    return { attachment, call: { ...call, env: { ...call.env, CNI_NETNS: "" }, netns: { path: "" } }, queuedBootMs: undefined };
  }

  /** Unless another DEL of the attachment was queued meanwhile. */
  async remove({ key, identity }: QueueEntry): Promise<void> {
    // No plugin puts a file in its place between the look and the removal.
    using _ = await this.#inTime(tryLockFile);
    if (this.find(key)?.identity === identity) unlessMissing(() => unlinkSync(this.#pathOf(key)));
  }

  /** Keeps an entry that makes no sense, for a person to look at. @returns where it is now */
  setAsideBad({ key }: QueueEntry): string {
    return this.#setAside(`${key}.json`);
  }

  /** Lists the directory without `bad/`, with the key of each file of an attachment. */
  #names(): readonly { readonly name: string; readonly key: string | undefined }[] {
    const names = unlessMissing(() => readdirSync(this.directory)) ?? [];
    return names
      .filter((name) => name !== BAD)
      .map((name) => ({ name, key: NAME.test(name) ? name.slice(0, -".json".length) : undefined }));
  }

  #setAside(name: string): string {
    const bad = join(this.directory, BAD);
    mkdirSync(bad, { recursive: true, mode: DIRECTORY_MODE });
    const target = join(bad, `${name}.${Date.now()}`);
    unlessMissing(() => renameSync(join(this.directory, name), target));
    return target;
  }

  #pathOf(key: string): string {
    return join(this.directory, `${key}.json`);
  }

  #statusOf(key: string): Stats | undefined {
    return unlessMissing(() => statSync(this.#pathOf(key)));
  }

  /** Takes the lock, which orders writers and the agent's removals. Goes on without it after a time: files are replaced whole. */
  async #inTime(tryLock: (path: string) => Disposable | undefined): Promise<Disposable | undefined> {
    const end = performance.now() + LOCK_LIMIT_MS;
    for (;;) {
      const held = tryLock(join(this.directory, LOCK));
      if (held !== undefined || performance.now() >= end) return held;
      await Bun.sleep(LOCK_PAUSE_MS);
    }
  }
}

function entryOf(key: string, { dev, ino, mtimeMs }: Stats): QueueEntry {
  return { key, identity: `${dev}:${ino}:${mtimeMs}`, queuedAt: mtimeMs };
}
