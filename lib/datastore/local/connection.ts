/** The one way to a connection: recognised first, then opened, made when fresh, and set up for many short processes at once. */
import type { Database } from "bun:sqlite";
import { createStoreFile } from "./create-file.ts";
import { damaged, failureOf } from "./failures.ts";
import { checkIdentity, noteConnection, recogniseFile } from "./file.ts";
import { sqlite } from "./sqlite.ts";

export interface ConnectionOptions {
  /** How long a write waits for the writers before it. Default 10 s: a write takes a tenth of a millisecond. */
  readonly busyTimeoutMs?: number;
}

const DEFAULT_BUSY_TIMEOUT_MS = 10_000;

/**
 * Pages of the log after which a commit copies them into the file. Every process that finds itself alone reads the whole log
 * (recovery, sqlite.org/walformat.html 4.4), so it is kept far smaller than SQLite's 1000: at most 1 MiB, half a millisecond.
 */
const CHECKPOINT_PAGES = 256;

export interface Connection extends Disposable {
  readonly path: string;
  readonly database: Database;
}

/**
 * Opens the store at `path`, made at first use.
 *
 * @throws TortieError `datastore-damaged`, `datastore-foreign`, `datastore-newer`: the file is untouched
 * @throws DatastoreError `unavailable`: not readable, no room, locked for longer than the limit
 */
export function openConnection(path: string, options: ConnectionOptions = {}): Connection {
  const busyTimeoutMs = options.busyTimeoutMs ?? DEFAULT_BUSY_TIMEOUT_MS;
  if (recogniseFile(path) === "fresh") createStoreFile(path);
  try {
    const { Database, constants } = sqlite();
    const database = new Database(path, constants.SQLITE_OPEN_READWRITE);
    const forget = noteConnection(path);
    const close = () => {
      database.close();
      forget();
    };
    try {
      setUp(database, path, busyTimeoutMs);
    } catch (error) {
      close();
      throw error;
    }
    return { path, database, [Symbol.dispose]: close };
  } catch (error) {
    throw failureOf(error, path);
  }
}

function setUp(database: Database, path: string, busyTimeoutMs: number): void {
  database.run(`PRAGMA busy_timeout = ${busyTimeoutMs}; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  // The log may hold a newer header than the file's first page, which is all that was looked at so far.
  checkIdentity(numberOf(database, "PRAGMA application_id"), numberOf(database, "PRAGMA user_version"), path);
}

function numberOf(database: Database, sql: string): number {
  const value = database.query(sql).values()[0]?.[0];
  if (typeof value !== "number") throw damaged(database.filename, `no answer to ${sql}`);
  return value;
}
