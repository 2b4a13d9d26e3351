/**
 * Keeps the files of endpoints (A§5.7): `<state>/<id>/` has the record and the log of one that is there, `gone/` those of the last ones that
 * ended, `bad/` what could not be read.
 *
 * Replaces a record whole, by rename, so that a reader and a restart see the old or the new one and never half of one. Without fsync: the
 * directory lives in a tmpfs, and nothing of it outlives the machine (A§11.4). Writes are synchronous: a write is a few microseconds, and
 * what follows it must not begin before it is done.
 */

import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import type { EndpointRecord } from "../../handover/record.ts";
import { decodeSettled, encodeRecord } from "../../handover/record.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { writeWhole } from "../../lib/system/write-whole.ts";

const RECORD_FILE = "endpoint.json";
const LOG_FILE = "log.jsonl";
const FILE_MODE = 0o600;
const DIRECTORY_MODE = 0o700;
const KEPT = { gone: 256, bad: 10 } as const;
const ID = /^[1-9]\d{0,4}$/;

/** What is in the directory of one endpoint. */
export type StoredRecord =
  | { readonly id: number; readonly kind: "record"; readonly record: EndpointRecord }
  /** There is a file that cannot be read as a record. */
  | { readonly id: number; readonly kind: "unreadable"; readonly reason: string }
  /** No file yet: the agent was killed before its first word, and so before any effect. */
  | { readonly id: number; readonly kind: "empty" };

export class RecordStore {
  readonly #stateDir: string;
  /** Names in `gone/` and `bad/`, oldest first, as far as they have been looked at: no other program writes there. */
  readonly #aside = new Map<keyof typeof KEPT, string[]>();

  constructor(stateDir: string) {
    this.#stateDir = stateDir;
  }

  recordFile(id: number): string {
    return join(this.#directory(id), RECORD_FILE);
  }

  logFile(id: number): string {
    return join(this.#directory(id), LOG_FILE);
  }

  /** Says whether the id has a directory. */
  has(id: number): boolean {
    return existsSync(this.#directory(id));
  }

  /** Lists the endpoints that have a directory, in the order of their ids. Other names are not looked at. @throws an error of node:fs */
  ids(): number[] {
    const ids = namesIn(this.#stateDir).filter((name) => ID.test(name));
    return ids.map(Number).sort((one, other) => one - other);
  }

  /** Makes the endpoint's directory with its first record. @returns it @throws an error of node:fs, EEXIST when the id is in use */
  create(record: EndpointRecord): EndpointRecord {
    makeOwnDirectory(this.#directory(record.id));
    try {
      this.write(record);
    } catch (error) {
      // An empty directory would keep the id from being given again.
      this.discard(record.id);
      throw error;
    }
    return record;
  }

  /** Replaces the record of an endpoint that has a directory. @throws SystemError */
  write(record: EndpointRecord): void {
    writeWhole(this.recordFile(record.id), encodeRecord(record), FILE_MODE, false);
  }

  read(id: number): StoredRecord {
    let text: string;
    try {
      text = readFileSync(this.recordFile(id), "utf8");
    } catch (error) {
      if (systemErrorCode(error) === "ENOENT") return { id, kind: "empty" };
      return { id, kind: "unreadable", reason: messageOf(error) };
    }
    try {
      const record = decodeSettled(text);
      if (record.id !== id) throw new Error(`it is the record of endpoint ${record.id}`);
      return { id, kind: "record", record };
    } catch (error) {
      return { id, kind: "unreadable", reason: messageOf(error) };
    }
  }

  /** Forgets an endpoint that never was: an ADD that was taken back. */
  discard(id: number): void {
    rmSync(this.#directory(id), { recursive: true, force: true });
  }

  /**
   * Puts an endpoint that has ended aside, where `explain` finds its record and its log; where the file system refuses that, removes it.
   * @throws an error of node:fs when neither can be done: a successor would take the endpoint for one that is there
   */
  retire(id: number, now: number): void {
    try {
      this.#putAside(id, "gone", now);
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      this.discard(id);
    }
  }

  /** Keeps what could not be read for a person to look at (A§7.3 step 3). @returns where it is now */
  setAsideBad(id: number, now: number): string {
    return this.#putAside(id, "bad", now);
  }

  #directory(id: number): string {
    return join(this.#stateDir, String(id));
  }

  #putAside(id: number, folder: keyof typeof KEPT, now: number): string {
    const parent = join(this.#stateDir, folder);
    if (!existsSync(parent)) makeOwnDirectory(parent);
    const target = freeName(join(parent, `${id}-${now}`));
    renameSync(this.#directory(id), target);
    const names = this.#aside.get(folder) ?? namesIn(parent).sort((one, other) => timeOf(one) - timeOf(other));
    if (!names.includes(basename(target))) names.push(basename(target));
    this.#aside.set(folder, names);
    for (const name of names.splice(0, Math.max(0, names.length - KEPT[folder]))) {
      rmSync(join(parent, name), { recursive: true, force: true });
    }
    return target;
  }
}

/** Gives the directory the mode of A§0.2 whatever the process's umask is. */
function makeOwnDirectory(path: string): void {
  mkdirSync(path, { mode: DIRECTORY_MODE });
  chmodSync(path, DIRECTORY_MODE);
}

function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch (error) {
    if (systemErrorCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** Reads the time in `<id>-<milliseconds>`, with a number behind it where two fall into one millisecond. */
function timeOf(name: string): number {
  return Number(/-(\d+)/.exec(name)?.[1] ?? 0);
}

function freeName(wanted: string): string {
  let name = wanted;
  for (let number = 1; existsSync(name); number++) name = `${wanted}.${number}`;
  return name;
}
