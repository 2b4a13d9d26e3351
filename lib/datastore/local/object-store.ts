/**
 * Keeps one table of (kind, key) → text at a revision, with compare-and-swap; what the texts mean is decided elsewhere (codecs.ts).
 * Everything is synchronous: a transaction never spans an await, so two operations of one process cannot mix.
 */
import type { Database, Statement } from "bun:sqlite";
import { DatastoreError } from "../errors.ts";
import { type Connection, type ConnectionOptions, numberOf, openConnection } from "./connection.ts";
import { damaged, failureOf, isSqliteError } from "./file.ts";

export type Kind =
  | "affinity"
  | "block"
  | "cluster-information"
  | "endpoint"
  | "handle"
  | "identity"
  | "ipam-configuration"
  | "namespace"
  | "node"
  | "pod"
  | "pool"
  | "reservation"
  | "virtual-machine"
  | "virtual-machine-instance";

/** Texts of one object: `value` is always wanted, `detail` is the part a list can leave undecoded. */
export interface StoredText {
  readonly value: string;
  readonly detail: string | null;
  /** For a block that has room: whose it is (codecs.ts, `ownerPrefix`), so that such blocks are found without reading the full ones. */
  readonly room: string | null;
}

export interface StoredObject extends Pick<StoredText, "value" | "detail"> {
  readonly key: string;
  readonly revision: string;
}

/** The last revision that this process gave. */
let lastRevision = 0;

export class ObjectStore implements Disposable {
  readonly #connection: Connection;
  readonly #database: Database;
  readonly #path: string;
  /** Writes of this process by kind, begun ones included. */
  readonly #writes = new Map<Kind, number>();

  /** @throws what `openConnection` throws */
  constructor(path: string, options: ConnectionOptions = {}) {
    this.#connection = openConnection(path, options);
    this.#database = this.#connection.database;
    this.#path = path;
  }

  get(kind: Kind, key: string): StoredObject | undefined {
    return this.#read("SELECT key, revision, value, detail FROM objects WHERE kind = ? AND key = ?", kind, key)[0];
  }

  /** Objects whose key starts with `prefix`, in key order, by one range scan; all of the kind when it is empty. */
  list(kind: Kind, prefix: string): readonly StoredObject[] {
    return this.#read(
      "SELECT key, revision, value, detail FROM objects WHERE kind = ? AND key >= ? AND key < ? ORDER BY key",
      kind,
      prefix,
      // Above every text that continues the prefix: U+10FFFF is the last code point, and keys compare as UTF-8 bytes.
      `${prefix}\u{10FFFF}`,
    );
  }

  /** Keys and revisions of the objects whose key starts with `prefix`, in key order: far less to read than the objects. */
  listRevisions(kind: Kind, prefix: string): readonly { readonly key: string; readonly revision: string }[] {
    const statement = "SELECT key, revision, '' FROM objects WHERE kind = ? AND key >= ? AND key < ? ORDER BY key";
    return this.#read(statement, kind, prefix, `${prefix}\u{10FFFF}`);
  }

  /** Runs `read` on one state of the store, whatever others write meanwhile. */
  snapshot<T>(read: () => T): T {
    return this.#within("BEGIN", read);
  }

  /** Blocks with this mark of room, in key order, by one index scan. */
  listWithRoom(room: string): readonly StoredObject[] {
    return this.#read("SELECT key, revision, value, detail FROM objects WHERE room = ? ORDER BY key", room);
  }

  /**
   * The same text as before as long as no process has changed an object of the kind: `data_version` counts the commits of others
   * (sqlite.org/pragma.html#pragma_data_version), our own are counted here.
   */
  stamp(kind: Kind): string {
    return `${numberOf(this.#database, "PRAGMA data_version")} ${this.#writes.get(kind) ?? 0}`;
  }

  /** @throws DatastoreError `already-exists` @returns the revision */
  create(kind: Kind, key: string, text: StoredText): string {
    return this.transaction(() => {
      const revision = this.#nextRevision(kind);
      const statement = "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
      const made = this.#prepare(statement).run(kind, key, revision, text.value, text.detail, text.room).changes;
      if (made === 0) throw new DatastoreError("already-exists", `resource already exists: ${kind} ${key}`);
      return String(revision);
    });
  }

  /** @throws DatastoreError `conflict`, `not-found` @returns the new revision */
  update(kind: Kind, key: string, text: StoredText, revision: string): string {
    return this.transaction(() => {
      const next = this.#nextRevision(kind, Number(revision));
      const statement = "UPDATE objects SET revision = ?, value = ?, detail = ? WHERE kind = ? AND key = ? AND revision = ?";
      const changed = this.#prepare(statement).run(next, text.value, text.detail, kind, key, Number(revision)).changes;
      if (changed === 0) throw this.#whyNotThere(kind, key, revision);
      // Apart, because a column that is set, even to what it was, has its index written.
      if (kind === "block")
        this.#prepare("UPDATE objects SET room = ? WHERE kind = ? AND key = ? AND room IS NOT ?").run(text.room, kind, key, text.room);
      return String(next);
    });
  }

  /** @throws DatastoreError `conflict`, `not-found` */
  delete(kind: Kind, key: string, revision: string): void {
    this.transaction(() => {
      this.#noteWrite(kind);
      const removed = this.#prepare("DELETE FROM objects WHERE kind = ? AND key = ? AND revision = ?").run(
        kind,
        key,
        Number(revision),
      ).changes;
      if (removed === 0) throw this.#whyNotThere(kind, key, revision);
    });
  }

  /** Runs `work` as one write transaction, alone among all processes; what it throws undoes it. */
  transaction<T>(work: () => T): T {
    return this.#within("BEGIN IMMEDIATE", work);
  }

  /** Refuses an object that says what it should not. @throws always TortieError `datastore-damaged` */
  refuse(kind: Kind, key: string, cause: unknown): never {
    throw damaged(this.#path, `${kind} ${key} cannot be decoded`, cause);
  }

  [Symbol.dispose](): void {
    this.#connection[Symbol.dispose]();
  }

  /**
   * Takes the time in microseconds since 1970, above the revision that it replaces and above all of this process: writers take turns and
   * each takes longer than that, so that no state of the store shares its revision with another. A counter in the file would have to be
   * written with every object (docs/project/benchmarks.md).
   */
  #nextRevision(kind: Kind, replaced = 0): number {
    this.#noteWrite(kind);
    const now = Math.floor((performance.timeOrigin + performance.now()) * 1000);
    lastRevision = Math.max(now, replaced + 1, lastRevision + 1);
    return lastRevision;
  }

  /** Calls inside a transaction join it. */
  #within<T>(begin: "BEGIN" | "BEGIN IMMEDIATE", work: () => T): T {
    if (this.#database.inTransaction) return work();
    try {
      this.#prepare(begin).run();
      const result = work();
      this.#prepare("COMMIT").run();
      return result;
    } catch (error) {
      this.#rollBack();
      throw isSqliteError(error) ? failureOf(error, this.#path) : error;
    }
  }

  #noteWrite(kind: Kind): void {
    this.#writes.set(kind, (this.#writes.get(kind) ?? 0) + 1);
  }

  #whyNotThere(kind: Kind, key: string, revision: string): DatastoreError {
    if (this.get(kind, key) === undefined) return new DatastoreError("not-found", `resource does not exist: ${kind} ${key}`);
    return new DatastoreError("conflict", `update conflict: ${kind} ${key} is no longer at revision ${revision}`);
  }

  #read(sql: string, ...parameters: string[]): StoredObject[] {
    let rows: unknown[][];
    try {
      rows = this.#prepare(sql).values(...parameters);
    } catch (error) {
      throw failureOf(error, this.#path);
    }
    return rows.map(([key, revision, value, detail]) => {
      if (typeof key !== "string" || typeof revision !== "number" || typeof value !== "string")
        throw damaged(this.#path, "a row is broken");
      return { key, revision: String(revision), value, detail: typeof detail === "string" ? detail : null };
    });
  }

  /** `Database.query` keeps what it prepared, by its text. */
  #prepare(sql: string): Statement<unknown, (string | number | null)[]> {
    return this.#database.query(sql);
  }

  /** SQLite may have rolled back by itself (SQLITE_FULL, SQLITE_IOERR: sqlite.org/lang_transaction.html). */
  #rollBack(): void {
    try {
      if (this.#database.inTransaction) this.#database.run("ROLLBACK");
    } catch {
      // The failure that led here says more; the connection's end drops the transaction in any case.
    }
  }
}
