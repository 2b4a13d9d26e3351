/**
 * Endpoint records on disk. A record is replaced whole, by rename, so that a reader and a restart see the old or the new one and
 * never half of one. Without fsync: the directory lives in a tmpfs, and nothing of it outlives the machine (A§11.4).
 *
 * Writes are synchronous: a write is a few microseconds, and what follows it must not begin before it is done.
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { EndpointRecord } from "../../../handover/record.ts";
import { decodeSettled, encodeRecord } from "../../../handover/record.ts";
import { messageOf } from "../../../lib/errors/errors.ts";
import { systemErrorCode } from "../../../lib/system/errno.ts";
import { EndpointDirectories, RECORD_FILE } from "./directories.ts";

const FILE_MODE = 0o600;

/** What is in the directory of one endpoint. */
export type StoredRecord =
  | { readonly id: number; readonly kind: "record"; readonly record: EndpointRecord }
  /** There is a file that cannot be read as a record. */
  | { readonly id: number; readonly kind: "unreadable"; readonly reason: string }
  /** No file yet: the agent was killed before its first word, and so before any effect. */
  | { readonly id: number; readonly kind: "empty" };

export class RecordStore {
  readonly directories: EndpointDirectories;

  constructor(stateDir: string) {
    this.directories = new EndpointDirectories(stateDir);
  }

  /** Makes the endpoint's directory with its first record. @throws an error of node:fs, EEXIST when the id is in use */
  create(record: EndpointRecord): void {
    this.directories.create(record.id);
    this.write(record);
  }

  /** Replaces the record of an endpoint that has a directory. @throws an error of node:fs */
  write(record: EndpointRecord): void {
    const path = join(this.directories.path(record.id), RECORD_FILE);
    writeFileSync(`${path}.tmp`, encodeRecord(record), { mode: FILE_MODE });
    renameSync(`${path}.tmp`, path);
  }

  read(id: number): StoredRecord {
    let text: string;
    try {
      text = readFileSync(join(this.directories.path(id), RECORD_FILE), "utf8");
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

  /** What every endpoint's directory holds, by id. Variants of directories are the restore's to mend first. */
  readAll(): StoredRecord[] {
    return this.directories
      .list()
      .filter(({ variant }) => variant === "")
      .map(({ id }) => id)
      .sort((one, other) => one - other)
      .map((id) => this.read(id));
  }

  /** Forgets an endpoint that never was: an ADD that was taken back. */
  discard(id: number): void {
    this.directories.remove(id);
  }
}
