/** One kind of object as a collection of the port: keys and values to texts and back. */
import { RecentMap } from "../../system/recent-map.ts";
import type { Collection, Versioned } from "../datastore.ts";
import type { LocalCodec } from "./codecs.ts";
import type { ObjectStore, StoredObject, StoredText } from "./object-store.ts";

/** Lists that are remembered: of a node's own blocks in both families, of everything, and a few more. */
const MOST_LISTS = 16;

export class LocalCollection<K, T> implements Collection<K, T> {
  protected readonly store: ObjectStore;
  readonly #codec: LocalCodec<K, T>;
  /**
   * The last list of each prefix, from the second time it is asked for: one call of a plugin lists once, an agent again and again. The
   * prefix that was asked for longest ago is forgotten first.
   */
  readonly #lists = new RecentMap<string, { readonly stamp: string; readonly rows: readonly Versioned<T>[] } | undefined>(MOST_LISTS);

  constructor(store: ObjectStore, codec: LocalCodec<K, T>) {
    this.store = store;
    this.#codec = codec;
  }

  async get(key: K): Promise<Versioned<T> | undefined> {
    const stored = this.store.get(this.#codec.kind, this.#codec.keyOf(key));
    return stored && this.decode(stored);
  }

  async list(): Promise<readonly Versioned<T>[]> {
    return this.readAll();
  }

  async create(key: K, value: T): Promise<Versioned<T>> {
    return { value, revision: this.store.create(this.#codec.kind, this.#codec.keyOf(key), this.encode(value)) };
  }

  async update(key: K, value: T, revision: string): Promise<Versioned<T>> {
    return { value, revision: this.store.update(this.#codec.kind, this.#codec.keyOf(key), this.encode(value), revision) };
  }

  async delete(key: K, revision: string): Promise<void> {
    this.store.delete(this.#codec.kind, this.#codec.keyOf(key), revision);
  }

  protected encode(value: T): StoredText {
    return this.#codec.encode(value);
  }

  protected readAll(): readonly Versioned<T>[] {
    return this.readPrefix("");
  }

  /** Reads nothing when nothing of the kind has changed since the last time, and else only what has. */
  protected readPrefix(prefix: string): readonly Versioned<T>[] {
    const { kind } = this.#codec;
    if (!this.#lists.has(prefix)) {
      this.#lists.set(prefix, undefined);
      return this.store.list(kind, prefix).map((stored) => this.decode(stored));
    }
    // The stamp is taken first: what changes meanwhile only costs another read.
    const stamp = this.store.stamp(kind);
    const last = this.#lists.get(prefix);
    if (last?.stamp === stamp) return last.rows;
    const rows = last === undefined ? this.store.list(kind, prefix).map((stored) => this.decode(stored)) : this.#refresh(prefix, last.rows);
    this.#lists.set(prefix, { stamp, rows });
    return rows;
  }

  /** A revision never stands for two states of the store, so that an object at a known one need not be read again. */
  #refresh(prefix: string, known: readonly Versioned<T>[]): readonly Versioned<T>[] {
    const { kind } = this.#codec;
    const byRevision = new Map(known.map((object) => [object.revision, object]));
    return this.store.snapshot(() =>
      this.store.listRevisions(kind, prefix).flatMap(({ key, revision }) => {
        const same = byRevision.get(revision);
        if (same !== undefined) return [same];
        const changed = this.store.get(kind, key);
        return changed === undefined ? [] : [this.decode(changed)];
      }),
    );
  }

  protected decode(stored: StoredObject): Versioned<T> {
    const refuse = (cause: unknown): never => this.store.refuse(this.#codec.kind, stored.key, cause);
    try {
      return { value: this.#codec.decode(stored, refuse), revision: stored.revision };
    } catch (error) {
      return refuse(error);
    }
  }
}
