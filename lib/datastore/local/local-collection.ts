/** One kind of object as a collection of the port: keys and values to texts and back. */
import type { Collection, Versioned } from "../datastore.ts";
import type { Kind, ObjectStore, StoredObject, StoredText } from "./object-store.ts";

export interface Codec<K, T> {
  readonly kind: Kind;
  readonly keyOf: (key: K) => string;
  readonly encode: (value: T) => StoredText;
  /** `refuse` is for what is decoded late; what it throws at once is refused by the collection. */
  readonly decode: (text: StoredText, refuse: (cause: unknown) => never) => T;
}

export class LocalCollection<K, T> implements Collection<K, T> {
  protected readonly store: ObjectStore;
  readonly #codec: Codec<K, T>;

  constructor(store: ObjectStore, codec: Codec<K, T>) {
    this.store = store;
    this.#codec = codec;
  }

  async get(key: K): Promise<Versioned<T> | undefined> {
    const stored = this.store.get(this.#codec.kind, this.#codec.keyOf(key));
    return stored && this.#decode(stored);
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
    return this.store.list(this.#codec.kind).map((stored) => this.#decode(stored));
  }

  protected readPrefix(prefix: string): readonly Versioned<T>[] {
    return this.store.listByPrefix(this.#codec.kind, prefix).map((stored) => this.#decode(stored));
  }

  #decode(stored: StoredObject): Versioned<T> {
    const refuse = (cause: unknown): never => this.store.refuse(this.#codec.kind, stored.key, cause);
    try {
      return { value: this.#codec.decode(stored, refuse), revision: stored.revision };
    } catch (error) {
      return refuse(error);
    }
  }
}
