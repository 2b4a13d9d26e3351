/**
 * A collection that remembers each object as this process last read or wrote it, for reads that may be old: other
 * processes rarely write the blocks and handles of this node. Where one did, the conflict removes the object from this memory.
 *
 * What is remembered is never older than what this process has read or written before: an answer that was overtaken by another is not
 * noted. So an operation always finds its own last write.
 */
import type { Collection, ReadOptions, Versioned } from "../../lib/datastore/datastore.ts";

/** Objects that are remembered; the one that was noted longest ago is forgotten first. */
const MOST_REMEMBERED = 8192;

interface Known<T> {
  readonly stamp: number;
  /** Absent: not known any more. */
  readonly object?: Versioned<T>;
  /** This process has made it. */
  readonly isOwn: boolean;
}

export class LastKnown<K extends string, T> implements Collection<K, T> {
  readonly #inner: Collection<K, T>;
  readonly #known = new Map<K, Known<T>>();
  #stamp = 0;

  constructor(inner: Collection<K, T>) {
    this.#inner = inner;
  }

  async get(key: K, options?: ReadOptions): Promise<Versioned<T> | undefined> {
    const remembered = options?.mayBeOld === true ? this.#known.get(key)?.object : undefined;
    if (remembered !== undefined) return remembered;
    const began = this.#stampOf(key);
    const object = await this.#inner.get(key);
    if (this.#stampOf(key) === began) this.#note(key, object, this.wasCreatedHere(key));
    return object;
  }

  async create(key: K, value: T): Promise<Versioned<T>> {
    return this.#write(key, () => this.#inner.create(key, value), true);
  }

  async update(key: K, value: T, revision: string): Promise<Versioned<T>> {
    return this.#write(key, () => this.#inner.update(key, value, revision), this.wasCreatedHere(key));
  }

  async delete(key: K, revision: string): Promise<void> {
    try {
      await this.#inner.delete(key, revision);
    } finally {
      this.#note(key, undefined, false);
    }
  }

  /** Whether the object came into being by this process, as far as that is remembered. */
  wasCreatedHere(key: K): boolean {
    return this.#known.get(key)?.isOwn === true;
  }

  /** What is remembered: nothing of it need be true any more. */
  remembered(): readonly Versioned<T>[] {
    return [...this.#known.values()].flatMap(({ object }) => object ?? []);
  }

  async #write(key: K, write: () => Promise<Versioned<T>>, isOwn: boolean): Promise<Versioned<T>> {
    const began = this.#stampOf(key);
    try {
      const written = await write();
      this.#note(key, this.#stampOf(key) === began ? written : undefined, isOwn);
      return written;
    } catch (error) {
      this.#note(key, undefined, false);
      throw error;
    }
  }

  #note(key: K, object: Versioned<T> | undefined, isOwn: boolean): void {
    // A map keeps the order of insertion.
    this.#known.delete(key);
    this.#known.set(key, { stamp: ++this.#stamp, isOwn, ...(object === undefined ? {} : { object }) });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MOST_REMEMBERED && oldest !== undefined) this.#known.delete(oldest);
  }

  #stampOf(key: K): number {
    return this.#known.get(key)?.stamp ?? 0;
  }
}
