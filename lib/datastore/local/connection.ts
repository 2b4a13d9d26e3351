/**
 * Opens a connection in the one way there is: recognised first, then opened, made when fresh, and set up for many short processes at once.
 */
import type { Database } from "bun:sqlite";
import {
  closeFile,
  directoryOf,
  makeDirectories,
  O_CREAT,
  O_EXCL,
  O_RDWR,
  openFile,
  removeFile,
  replaceFile,
  statusOf,
} from "../../system/files.ts";
import { lockFile } from "../../system/flock.ts";
import { DatastoreError } from "../errors.ts";
import { APPLICATION_ID, checkIdentity, damaged, describeFile, failureOf, noteConnection, recogniseFile, SCHEMA_VERSION } from "./file.ts";
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

/** Reads the one number that a statement answers. @throws TortieError `datastore-damaged` */
export function numberOf(database: Database, sql: string): number {
  const value = database.query(sql).values()[0]?.[0];
  if (typeof value !== "number") throw damaged(database.filename, `no answer to ${sql}`);
  return value;
}

/** With rowids: the rows of blocks are long (16 KiB), and a table keeps them twice as fast to read as an index, which WITHOUT ROWID is. */
const TABLES = `
  CREATE TABLE objects (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    revision INTEGER NOT NULL,
    value TEXT NOT NULL,
    detail TEXT,
    room TEXT,
    PRIMARY KEY (kind, key)
  ) STRICT;
  CREATE INDEX blocks_with_room ON objects (room, key) WHERE room IS NOT NULL;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};`;

/**
 * Makes the store at `path`, where nothing is or an empty file. Of many makers one does it, the others find it done. The store is made
 * whole beside its place and then put there in one step (design, invariant 8): a process that is killed meanwhile leaves nothing at the
 * path, and no process ever opens half a store.
 *
 * @throws DatastoreError `unavailable`
 */
function createStoreFile(path: string): void {
  const draft = `${path}.new`;
  try {
    makeDirectories(directoryOf(path), 0o700);
    using _ = lockFile(`${path}.lock`);
    if ((statusOf(path)?.size ?? 0) > 0) return;
    // What a maker that was killed has left.
    for (const suffix of ["", "-wal", "-shm", "-journal"]) removeFile(draft + suffix);
    makeDraft(draft);
    replaceFile(draft, path);
  } catch (error) {
    throw failureOf(error, path);
  }
}

/** Closed by its only user, a WAL store is one file, written to the disk. */
function makeDraft(draft: string): void {
  // Mode 0600 from the beginning: SQLite would make it 0644.
  closeFile(openFile(draft, O_RDWR | O_CREAT | O_EXCL, 0o600));
  const { Database } = sqlite();
  const database = new Database(draft);
  try {
    const mode = Object.values(database.query<Record<string, unknown>, []>("PRAGMA journal_mode = WAL").get() ?? {})[0];
    if (mode !== "wal") {
      throw new DatastoreError("unavailable", `${describeFile(draft)}: its file system cannot share memory between processes (WAL)`);
    }
    database.run(`BEGIN; ${TABLES} COMMIT`);
  } finally {
    database.close();
  }
}
