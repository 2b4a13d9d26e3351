/**
 * A new store is made whole beside its place and then put there in one step (design, invariant 8): a process that is killed
 * meanwhile leaves nothing at the path, and no process ever opens half a store.
 */
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
import { describeFile, failureOf } from "./failures.ts";
import { APPLICATION_ID, SCHEMA_VERSION } from "./file.ts";
import { sqlite } from "./sqlite.ts";

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
 * Makes the store at `path`, where nothing is or an empty file. Of many makers one does it, the others find it done.
 * @throws DatastoreError `unavailable`
 */
export function createStoreFile(path: string): void {
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
