/**
 * Decides whether a file may be opened as our local store: from its first 100 bytes, before SQLite is let near it, so that a damaged,
 * foreign or newer file stays as it is to the last byte. And what a failure of SQLite or of the file system means to us.
 */
import { messageOf, TortieError } from "../../errors/errors.ts";
import { systemErrorCode } from "../../system/errno.ts";
import { closeFile, O_NONBLOCK, O_RDONLY, openFile, readOnce, statusOf, statusOfOpen } from "../../system/files.ts";
import { DatastoreError } from "../errors.ts";

/** "tort" in ASCII: `PRAGMA application_id` of our files. */
export const APPLICATION_ID = 0x746f7274;

/** `PRAGMA user_version`: raised when an older tortie could misread the tables. */
export const SCHEMA_VERSION = 1;

/** Places in the header of a database file (sqlite.org/fileformat2.html, 1.3). */
const HEADER = { size: 100, magic: "SQLite format 3\0", userVersion: 60, applicationId: 68 } as const;

/** `fresh`: not there, or empty; `ready`: ours. */
export type FileState = "fresh" | "ready";

/**
 * Files this process has a connection to, by device and inode. POSIX drops every lock of a process on a file as soon as it
 * closes any descriptor of it (fcntl(2)), SQLite's among them: such a file must not be looked into a second time.
 */
const connected = new Map<string, number>();

/**
 * Looks at the file and changes nothing.
 *
 * @throws TortieError `datastore-damaged`, `datastore-foreign`, `datastore-newer`
 * @throws DatastoreError `unavailable` when it cannot be read
 */
export function recogniseFile(path: string): FileState {
  try {
    if (connected.has(identityOf(path) ?? "")) return "ready";
    const header = readHeader(path);
    if (header === undefined) return "fresh";
    judgeHeader(header, path);
    return "ready";
  } catch (error) {
    throw failureOf(error, path);
  }
}

/** Notes a connection to the file; call the result when it is closed. */
export function noteConnection(path: string): () => void {
  const identity = identityOf(path) ?? path;
  connected.set(identity, (connected.get(identity) ?? 0) + 1);
  return () => {
    const left = (connected.get(identity) ?? 1) - 1;
    if (left > 0) connected.set(identity, left);
    else connected.delete(identity);
  };
}

/**
 * Refuses what `application_id` and `user_version` do not allow.
 *
 * @throws TortieError `datastore-foreign`, `datastore-newer`
 */
export function checkIdentity(applicationId: number, version: number, path: string): void {
  if (applicationId !== APPLICATION_ID) {
    throw new TortieError("datastore-foreign", `${path} is a SQLite database of another program (application_id ${applicationId})`);
  }
  if (version > SCHEMA_VERSION) {
    throw new TortieError(
      "datastore-newer",
      `${describeFile(path)} was written by a newer tortie (version ${version} of the tables, this one knows ${SCHEMA_VERSION})`,
    );
  }
}

function identityOf(path: string): string | undefined {
  return statusOf(path)?.identity;
}

/** Reads the header's bytes; `undefined` when the file is empty or not there. */
function readHeader(path: string): Uint8Array | undefined {
  const fd = openIfThere(path);
  if (fd === undefined) return undefined;
  try {
    const status = statusOfOpen(fd);
    // A directory, a pipe or a device would fail later, and less clearly.
    if (!status.isFile) throw new Error(`${path} is not a regular file`);
    return status.size === 0 ? undefined : readOnce(fd, HEADER.size, path);
  } finally {
    closeFile(fd);
  }
}

function openIfThere(path: string): number | undefined {
  try {
    return openFile(path, O_RDONLY | O_NONBLOCK);
  } catch (error) {
    if (systemErrorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function judgeHeader(header: Uint8Array, path: string): void {
  if (header.length < HEADER.size || new TextDecoder("latin1").decode(header.subarray(0, HEADER.magic.length)) !== HEADER.magic) {
    throw damaged(path, "it does not begin like a SQLite database");
  }
  const view = new DataView(header.buffer, header.byteOffset);
  checkIdentity(view.getUint32(HEADER.applicationId), view.getUint32(HEADER.userVersion), path);
}

/** Words for messages: "local datastore /var/lib/tortie/tortie.db". */
export function describeFile(path: string): string {
  return `local datastore ${path}`;
}

/** SQLite's primary result codes that say the file itself is broken: SQLITE_CORRUPT, SQLITE_NOTADB (sqlite3.h). */
const DAMAGED = new Set([11, 26]);

/** What the other codes mean to a person (sqlite3.h, primary result codes). */
const REASONS: Readonly<Record<number, string>> = {
  3: "permission denied",
  5: "locked by another process for too long",
  6: "locked by another process for too long",
  8: "the file or its file system is read-only",
  10: "the disk reported an error",
  13: "the disk is full",
  14: "the file cannot be opened",
  15: "locked by another process for too long",
};

/**
 * Makes the error to throw for something SQLite or node:fs threw; our own errors come back as they are.
 *
 * @returns TortieError `datastore-damaged`, or DatastoreError `unavailable`
 */
export function failureOf(error: unknown, path: string): Error {
  if (error instanceof TortieError) return error;
  const code = primaryCode(error);
  const message = textOf(error);
  // A file that says it is ours but lacks our tables lost pages of its schema.
  if (code !== undefined && (DAMAGED.has(code) || /^no such (table|column)/.test(message))) {
    return damaged(path, message, error);
  }
  const reason = code === undefined ? undefined : REASONS[code];
  const text = reason === undefined ? message : `${reason} (${message})`;
  return new DatastoreError("unavailable", `${describeFile(path)}: ${text}`, error);
}

export function damaged(path: string, what: string, cause?: unknown): TortieError {
  return new TortieError("datastore-damaged", `${describeFile(path)} is damaged: ${what}`, { cause });
}

/** Everything else that a transaction throws is its caller's own. */
export function isSqliteError(error: unknown): boolean {
  return factsOf(error).name === "SQLiteError";
}

/** Reads the low byte of SQLite's result code; `undefined` when `error` is not SQLite's. */
function primaryCode(error: unknown): number | undefined {
  const { name, errno } = factsOf(error);
  return name === "SQLiteError" && typeof errno === "number" ? errno & 0xff : undefined;
}

function textOf(error: unknown): string {
  const { message } = factsOf(error);
  return typeof message === "string" ? message : messageOf(error);
}

/** Reads what errors of the platform say besides their text. No `instanceof`: Jest's global Error is not the platform's. */
function factsOf(error: unknown): {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly errno?: unknown;
} {
  return typeof error === "object" && error !== null ? error : {};
}
