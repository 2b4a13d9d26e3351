/**
 * One table of (kind, key) → text at a revision, with compare-and-swap; what the texts mean is decided elsewhere (codec.ts).
 * Everything is synchronous: a transaction never spans an await, so two operations of one process cannot mix.
 */
import type { Database, Statement } from "bun:sqlite";
import { DatastoreError } from "../datastore.ts";
import { type Connection, type ConnectionOptions, openConnection } from "./connection.ts";
import { damaged, failureOf } from "./failures.ts";

export type Kind =
  | "affinity"
  | "block"
  | "cluster-information"
  | "endpoint"
  | "handle"
  | "ipam-configuration"
  | "namespace"
  | "node"
  | "pool"
  | "reservation";

/** Texts of one object: `value` is always wanted, `detail` is the part a list can leave undecoded. */
export interface StoredText {
  readonly value: string;
  readonly detail: string | null;
}

export interface StoredObject extends StoredText {
  readonly key: string;
  readonly revision: string;
}

export class ObjectStore implements Disposable {
  readonly #connection: Connection;
  readonly #database: Database;
  readonly #path: string;

  /** @throws what `openConnection` throws */
  constructor(path: string, options: ConnectionOptions = {}) {
    this.#connection = openConnection(path, options);
    this.#database = this.#connection.database;
    this.#path = path;
  }

  get(kind: Kind, key: string): StoredObject | undefined {
    return this.#read("SELECT key, revision, value, detail FROM objects WHERE kind = ? AND key = ?", kind, key)[0];
  }

  list(kind: Kind): readonly StoredObject[] {
    return this.#read("SELECT key, revision, value, detail FROM objects WHERE kind = ? ORDER BY key", kind);
  }

  /** Objects whose key starts with `prefix`, in key order, by one range scan. */
  listByPrefix(kind: Kind, prefix: string): readonly StoredObject[] {
    return this.#read(
      "SELECT key, revision, value, detail FROM objects WHERE kind = ? AND key >= ? AND key < ? ORDER BY key",
      kind,
      prefix,
      // Above every text that continues the prefix: U+10FFFF is the last code point, and keys compare as UTF-8 bytes.
      `${prefix}\u{10FFFF}`,
    );
  }

  /** @throws DatastoreError `already-exists` @returns the revision */
  create(kind: Kind, key: string, text: StoredText): string {
    return this.transaction(() => {
      const revision = this.#nextRevision();
      const made = this.#prepare("INSERT INTO objects VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING").run(
        kind,
        key,
        revision,
        text.value,
        text.detail,
      ).changes;
      if (made === 0) throw new DatastoreError("already-exists", `resource already exists: ${kind} ${key}`);
      return String(revision);
    });
  }

  /** @throws DatastoreError `conflict`, `not-found` @returns the new revision */
  update(kind: Kind, key: string, text: StoredText, revision: string): string {
    return this.transaction(() => {
      const next = this.#nextRevision();
      const statement = "UPDATE objects SET revision = ?, value = ?, detail = ? WHERE kind = ? AND key = ? AND revision = ?";
      const changed = this.#prepare(statement).run(next, text.value, text.detail, kind, key, Number(revision)).changes;
      if (changed === 0) throw this.#whyNotThere(kind, key, revision);
      return String(next);
    });
  }

  /** @throws DatastoreError `conflict`, `not-found` */
  delete(kind: Kind, key: string, revision: string): void {
    this.transaction(() => {
      const removed = this.#prepare("DELETE FROM objects WHERE kind = ? AND key = ? AND revision = ?").run(
        kind,
        key,
        Number(revision),
      ).changes;
      if (removed === 0) throw this.#whyNotThere(kind, key, revision);
    });
  }

  /** Runs `work` as one write transaction, alone among all processes; what it throws undoes it. Calls inside join it. */
  transaction<T>(work: () => T): T {
    if (this.#database.inTransaction) return work();
    try {
      this.#prepare("BEGIN IMMEDIATE").run();
      const result = work();
      this.#prepare("COMMIT").run();
      return result;
    } catch (error) {
      this.#rollBack();
      throw failureOf(error, this.#path);
    }
  }

  /** An object that says what it should not. @throws always TortieError `datastore-damaged` */
  refuse(kind: Kind, key: string, cause: unknown): never {
    throw damaged(this.#path, `${kind} ${key} cannot be decoded`, cause);
  }

  [Symbol.dispose](): void {
    this.#connection[Symbol.dispose]();
  }

  /** Counts every write of the store: a key that is made again never gets a revision it had before. */
  #nextRevision(): number {
    const [row] = this.#prepare("UPDATE counter SET revision = revision + 1 RETURNING revision").values();
    const revision = row?.[0];
    if (typeof revision !== "number") throw damaged(this.#path, "the counter of revisions is missing");
    return revision;
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
