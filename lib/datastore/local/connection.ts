/** The one way to a connection: recognised first, then opened, made when fresh, and set up for many short processes at once. */
import { constants, Database } from "bun:sqlite";
import { DatastoreError } from "../datastore.ts";
import { damaged, describeFile, failureOf, isBusy } from "./failures.ts";
import { APPLICATION_ID, checkIdentity, noteConnection, recogniseFile, SCHEMA_VERSION } from "./file.ts";

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
  CREATE TABLE counter (revision INTEGER NOT NULL) STRICT;
  INSERT INTO counter VALUES (0);
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};`;

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
  const state = recogniseFile(path);
  using undo = new DisposableStack();
  try {
    const database = new Database(path, constants.SQLITE_OPEN_READWRITE);
    undo.defer(noteConnection(path));
    undo.defer(() => database.close());
    database.run(`PRAGMA busy_timeout = ${busyTimeoutMs}`);
    if (state === "fresh") makeTables(database, path);
    if (state !== "ready") switchToWal(database, path, busyTimeoutMs);
    database.run(`PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    // The log may hold a newer header than the file's first page, which is all that was looked at so far.
    checkIdentity(numberOf(database, "PRAGMA application_id"), numberOf(database, "PRAGMA user_version"), path);
    const kept = undo.move();
    return { path, database, [Symbol.dispose]: () => kept.dispose() };
  } catch (error) {
    throw failureOf(error, path);
  }
}

/** In one transaction behind SQLite's exclusive lock: of many first openers one makes the tables, and a killed one leaves an empty file. */
function makeTables(database: Database, path: string): void {
  database.run("BEGIN EXCLUSIVE");
  try {
    const isEmpty = numberOf(database, "SELECT count(*) FROM sqlite_schema") === 0;
    if (isEmpty) database.run(TABLES);
    else checkIdentity(numberOf(database, "PRAGMA application_id"), numberOf(database, "PRAGMA user_version"), path);
    database.run("COMMIT");
  } catch (error) {
    if (database.inTransaction) database.run("ROLLBACK");
    throw error;
  }
}

/** SQLite does not wait by itself for this switch: it needs the file alone for an instant, so it is tried until the limit. */
function switchToWal(database: Database, path: string, limitMs: number): void {
  const deadline = Date.now() + limitMs;
  for (;;) {
    try {
      const mode = Object.values(database.query<Record<string, unknown>, []>("PRAGMA journal_mode = WAL").get() ?? {})[0];
      if (mode === "wal") return;
      throw new DatastoreError("unavailable", `${describeFile(path)}: its file system cannot share memory between processes (WAL)`);
    } catch (error) {
      if (!isBusy(error) || Date.now() >= deadline) throw error;
      Bun.sleepSync(1 + Math.random() * 9);
    }
  }
}

function numberOf(database: Database, sql: string): number {
  const value = database.query(sql).values()[0]?.[0];
  if (typeof value !== "number") throw damaged(database.filename, `no answer to ${sql}`);
  return value;
}
