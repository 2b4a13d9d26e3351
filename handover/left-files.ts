/**
 * Reads and writes the files that plugins and an agent that is away leave for each other: records of what plugins attached, DELs that wait
 * for the agent, and the agent's own records, as far as a plugin can read them.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, type Stats, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { type AttachmentId, fileKey } from "../lib/cni/attachment-id.ts";
import { messageOf } from "../lib/errors/errors.ts";
import { field, isBoolean, isNumber, isText, optional, parseObject } from "../lib/json/decode.ts";
import { unlessMissing } from "../lib/system/files.ts";
import { tryLockFile, tryShareFile } from "../lib/system/flock.ts";
import { bootTimeMs } from "../lib/system/libc.ts";
import { writeWhole } from "../lib/system/write-whole.ts";
import { type CniCall, readSettings } from "./call.ts";
import { callFields, decodeCall } from "./call-body.ts";
import { decodeRecord, decodeSettled, type EndpointRecord, encodeRecord, RECORD_FILE } from "./record.ts";
import type { RunDirectory } from "./run-directory.ts";

const NAME = /^[0-9a-f]{64}\.json$/;
const BAD = "bad";

/** Keeps a directory with one file an attachment, `<fileKey>.json`. Files are replaced whole: no reader sees half of one. */
class AttachmentFiles {
  readonly directory: string;

  /** @param directory made when the first file is written */
  constructor(directory: string) {
    this.directory = directory;
  }

  makeDirectory(): void {
    mkdirSync(this.directory, { recursive: true, mode: 0o700 });
  }

  /** @throws an error of node:fs */
  protected replace(key: string, text: string, isDurable: boolean): void {
    this.makeDirectory();
    writeWhole(this.pathOf(key), text, 0o600, isDurable);
  }

  /** @returns `undefined` when it is gone */
  protected textOf(key: string): string | undefined {
    return unlessMissing(() => readFileSync(this.pathOf(key), "utf8"));
  }

  /** Succeeds if there is none. */
  protected unlink(key: string): void {
    unlessMissing(() => unlinkSync(this.pathOf(key)));
  }

  /** What is in the directory but `bad/`, with the key of each file of an attachment. */
  protected names(): readonly { readonly name: string; readonly key: string | undefined }[] {
    const names = unlessMissing(() => readdirSync(this.directory)) ?? [];
    return names
      .filter((name) => name !== BAD)
      .map((name) => ({ name, key: NAME.test(name) ? name.slice(0, -".json".length) : undefined }));
  }

  /** Keeps a file that makes no sense in `bad/`, for a person to look at. @returns where it is now */
  protected setAside(name: string): string {
    const bad = join(this.directory, BAD);
    mkdirSync(bad, { recursive: true, mode: 0o700 });
    const target = join(bad, `${name}.${Date.now()}`);
    unlessMissing(() => renameSync(join(this.directory, name), target));
    return target;
  }

  protected pathOf(key: string): string {
    return join(this.directory, `${key}.json`);
  }
}

export interface FoundRecords {
  readonly records: readonly EndpointRecord[];
  /** With the path where each is kept now. */
  readonly unreadable: readonly { readonly path: string; readonly reason: string }[];
}

/** Keeps `direct/`: records of what plugins attached, which the agent takes over and leaves alone until then (A§11.6). */
export class DirectRecords extends AttachmentFiles {
  /** Replaces the attachment's record as a whole. @throws an error of node:fs */
  write(record: EndpointRecord): void {
    this.replace(fileKey(record.attachment), encodeRecord(record), false);
  }

  /** Succeeds if there is none. */
  remove(attachment: AttachmentId): void {
    this.unlink(fileKey(attachment));
  }

  /** @returns `undefined` when there is no record @throws Error when it cannot be read */
  read(attachment: AttachmentId): EndpointRecord | undefined {
    const text = this.textOf(fileKey(attachment));
    return text === undefined ? undefined : decodeSettled(text);
  }

  has(attachment: AttachmentId): boolean {
    return existsSync(this.pathOf(fileKey(attachment)));
  }

  /** Moves what cannot be read to `bad/`. */
  list(): FoundRecords {
    const records: EndpointRecord[] = [];
    const unreadable: { path: string; reason: string }[] = [];
    for (const { name, key } of this.names()) {
      if (key === undefined) continue;
      try {
        const text = this.textOf(key);
        // A DEL has removed it meanwhile.
        if (text === undefined) continue;
        const record = decodeSettled(text);
        if (fileKey(record.attachment) !== key) throw new Error("it is the record of another attachment");
        records.push(record);
      } catch (error) {
        unreadable.push({ path: this.setAside(name), reason: messageOf(error) });
      }
    }
    return { records, unreadable };
  }
}

/** A swap of directories that was cut short leaves the record in the one that stands aside (A§5.7). */
const ENDPOINT_DIRECTORY = /^([1-9]\d{0,4})(?:_stale)?$/;

/** @returns one record for each endpoint directory that is in force and readable: the agent's own restore judges the rest */
export function recordsOfAgent({ path }: Pick<RunDirectory, "path">): readonly EndpointRecord[] {
  const state = join(path, "state");
  const names = unlessMissing(() => readdirSync(state)) ?? [];
  const ids = new Set(names.flatMap((name) => ENDPOINT_DIRECTORY.exec(name)?.[1] ?? []));
  return [...ids].flatMap((id) => readFirst([join(state, id, RECORD_FILE), join(state, `${id}_stale`, RECORD_FILE)]) ?? []);
}

function readFirst(paths: readonly string[]): EndpointRecord | undefined {
  for (const path of paths) {
    try {
      return decodeRecord(readFileSync(path, "utf8"));
    } catch {
      // The other directory may have it. The agent sets aside what no version of ours has written.
    }
  }
  return undefined;
}

/** Most files that wait. */
const MAX_ENTRIES = 4096;

const LOCK = "lock";
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

/** What a file says. */
export interface QueuedDelete {
  readonly attachment: AttachmentId;
  readonly call: CniCall;
  /** Milliseconds since the machine's boot; absent in files of earlier versions. */
  readonly queuedBootMs: number | undefined;
  /** A plugin has carried it out: only the agent's record is left to be removed. */
  readonly isServed: boolean;
}

/** Keeps `deletequeue/`: DELs that wait, each the call as a record keeps it (A§11.5). A repeated DEL changes nothing. */
export class DeleteQueueFiles extends AttachmentFiles {
  readonly #limit: number;

  /** @param limit of files that wait; for tests */
  constructor(directory: string, limit = MAX_ENTRIES) {
    super(directory);
    this.#limit = limit;
  }

  /**
   * Survives a crash of the machine's processes and, where the directory is on a disk, of the machine.
   * @returns `false` when the queue is full @throws an error of node:fs
   */
  async write(key: string, call: CniCall, isServed: boolean): Promise<boolean> {
    this.makeDirectory();
    if (this.#statusOf(key) === undefined && this.names().filter((one) => one.key !== undefined).length >= this.#limit) return false;
    using _ = await this.#inTime(tryShareFile);
    const text = JSON.stringify({ ...callFields(call), queuedBootMs: bootTimeMs(), isServed: isServed || undefined });
    this.replace(key, text, true);
    return true;
  }

  /** Lists what waits, oldest first. Moves files that do not belong to the queue to `bad/`. @returns also the names of those */
  list(): { readonly entries: readonly QueueEntry[]; readonly foreign: readonly string[] } {
    const entries: QueueEntry[] = [];
    const foreign: string[] = [];
    for (const { name, key } of this.names()) {
      if (name === LOCK) continue;
      const status = unlessMissing(() => statSync(join(this.directory, name)));
      if (status === undefined) continue;
      if (key !== undefined) entries.push(entryOf(key, status));
      else if (!name.endsWith(".tmp") || Date.now() - status.mtimeMs > OLD_TEMPORARY_MS) foreign.push(this.setAside(name));
    }
    return { entries: entries.sort((one, other) => one.queuedAt - other.queuedAt), foreign };
  }

  find(key: string): QueueEntry | undefined {
    const status = this.#statusOf(key);
    return status === undefined ? undefined : entryOf(key, status);
  }

  /** @returns `undefined` when it is gone @throws Error when it is not the DEL of the attachment that the file is named after */
  read({ key }: QueueEntry): QueuedDelete | undefined {
    const text = this.textOf(key);
    if (text === undefined) return undefined;
    const body = parseObject(text);
    const network = readSettings(field(body, "stdin", isText))?.network ?? "";
    const attachment = { network, containerId: field(body, "containerId", isText), ifname: field(body, "ifname", isText) };
    if (fileKey(attachment) !== key) throw new Error("it is the DEL of another attachment");
    const { queuedBootMs } = optional(body, "queuedBootMs", isNumber);
    const { isServed = false } = optional(body, "isServed", isBoolean);
    return { attachment, call: decodeCall(body, "DEL"), queuedBootMs, isServed };
  }

  /** Unless another DEL of the attachment was queued meanwhile. */
  async remove({ key, identity }: QueueEntry): Promise<void> {
    // No plugin puts a file in its place between the look and the removal.
    using _ = await this.#inTime(tryLockFile);
    if (this.find(key)?.identity === identity) this.unlink(key);
  }

  /** Keeps an entry that makes no sense, for a person to look at. @returns where it is now */
  setAsideBad({ key }: QueueEntry): string {
    return this.setAside(`${key}.json`);
  }

  #statusOf(key: string): Stats | undefined {
    return unlessMissing(() => statSync(this.pathOf(key)));
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
