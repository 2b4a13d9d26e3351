/** What a failure of SQLite or of the file system means to us: one place for the reading of codes and for the wording. */

import { messageOf, TortieError } from "../../errors/errors.ts";
import { DatastoreError } from "../errors.ts";

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
 * The error to throw for something SQLite or node:fs threw; our own errors come back as they are.
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

/** The low byte of SQLite's result code; `undefined` when `error` is not SQLite's. */
function primaryCode(error: unknown): number | undefined {
  const { name, errno } = factsOf(error);
  return name === "SQLiteError" && typeof errno === "number" ? errno & 0xff : undefined;
}

/** ENOENT of node:fs. */
export function isMissingFile(error: unknown): boolean {
  return factsOf(error).code === "ENOENT";
}

function textOf(error: unknown): string {
  const { message } = factsOf(error);
  return typeof message === "string" ? message : messageOf(error);
}

/** What errors of the platform say besides their text. No `instanceof`: Jest's global Error is not the platform's. */
function factsOf(error: unknown): {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly errno?: unknown;
  readonly code?: unknown;
} {
  return typeof error === "object" && error !== null ? error : {};
}
