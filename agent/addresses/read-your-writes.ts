/**
 * Remembers what this process knows of the store's objects without asking: copies that watches keep, and what it has read or written
 * itself. An operation always finds its own last write, however late a watch shows it.
 */

import { cidrKey } from "../../lib/addresses/address.ts";
import type { Watched } from "../../lib/datastore/calico/stored-kind.ts";
import type { AffinityKey, BlockAffinities, Collection, ListOptions, ReadOptions, Versioned } from "../../lib/datastore/datastore.ts";
import type {
  BlockAffinity,
  BlockOwner,
  ClusterInformation,
  IPPool,
  IPReservation,
  IpamConfiguration,
  LabelledObject,
} from "../../lib/datastore/resources.ts";
import type { CacheState, ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { RecentMap } from "../../lib/system/recent-map.ts";

/** A copy that a watch keeps. */
export type Copy<T> = Pick<ResourceCache<Watched<T>>, "isUsable" | "get" | "list">;

/** A copy that says whether changes are being heard of at this moment. */
export type FollowedCopy<T> = Copy<T> & { readonly state: Pick<CacheState, "followedSince"> };

/** A kind without a copy is read from the store. */
export interface Copies {
  readonly pools?: Copy<IPPool>;
  readonly reservations?: Copy<IPReservation>;
  readonly configuration?: Copy<IpamConfiguration>;
  readonly clusterInformation?: FollowedCopy<ClusterInformation>;
  readonly nodes?: Copy<LabelledObject>;
  readonly namespaces?: Copy<LabelledObject>;
  /** Of one owner. */
  readonly affinities?: { readonly owner: BlockOwner; readonly copy: Copy<BlockAffinity> };
}

/** Reads one object from a copy; `undefined` when it is not there, or not known. */
export function fromCopy<T>(copy: Copy<T> | undefined, name: string): Versioned<T> | undefined {
  const found = copy?.isUsable === true ? copy.get(name) : undefined;
  return found?.isMarked === false ? found.stored : undefined;
}

/** Lists a copy in the order of the names; `undefined` when the store must be asked. */
export function allFromCopy<T>(copy: Copy<T> | undefined): readonly Versioned<T>[] | undefined {
  if (copy?.isUsable !== true) return undefined;
  return copy
    .list()
    .filter(({ isMarked }) => !isMarked)
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ stored }) => stored);
}

/** Objects that are remembered; the one that was noted longest ago is forgotten first. */
const MOST_REMEMBERED = 8192;

interface Known<T> {
  readonly stamp: number;
  /** Absent: not known any more. */
  readonly object?: Versioned<T>;
  /** This process has made it. */
  readonly isOwn: boolean;
}

/**
 * Remembers each object of a collection as this process last read or wrote it, for reads that may be old: other
 * processes rarely write the blocks and handles of this node. Where one did, the conflict removes the object from this memory.
 *
 * What is remembered is never older than what this process has read or written before: an answer that was overtaken by another is not
 * noted.
 */
export class LastKnown<K extends string, T> implements Collection<K, T> {
  readonly #inner: Collection<K, T>;
  readonly #known = new RecentMap<K, Known<T>>(MOST_REMEMBERED);
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

  /** Says whether this process created the object, as far as that is remembered. */
  wasCreatedHere(key: K): boolean {
    return this.#known.get(key)?.isOwn === true;
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
    this.#known.set(key, { stamp: ++this.#stamp, isOwn, object });
  }

  #stampOf(key: K): number {
    return this.#known.get(key)?.stamp ?? 0;
  }
}

/** Longer than the delay of any watch that still works. */
const MOST_LATE_MS = 60_000;

interface OwnWrite {
  readonly atMs: number;
  /** Number of the state that was written, or deleted. */
  readonly version: number;
  /** Absent: deleted. */
  readonly written?: Versioned<BlockAffinity>;
}

/**
 * Reads the affinities of this node from their watch and from what this process has written since, so that an ADD that waited for another
 * to claim a block finds the block. The newer of the two counts.
 */
export class OwnAffinities implements BlockAffinities {
  readonly #inner: BlockAffinities;
  readonly #copies: Copies["affinities"];
  readonly #nowMs: () => number;
  readonly #writes = new Map<string, OwnWrite>();

  constructor(inner: BlockAffinities, copies: Copies["affinities"], nowMs = (): number => performance.now()) {
    this.#inner = inner;
    this.#copies = copies;
    this.#nowMs = nowMs;
  }

  get(key: AffinityKey): Promise<Versioned<BlockAffinity> | undefined> {
    return this.#inner.get(key);
  }

  async create(key: AffinityKey, value: BlockAffinity): Promise<Versioned<BlockAffinity>> {
    return this.#noted(await this.#inner.create(key, value));
  }

  async update(key: AffinityKey, value: BlockAffinity, revision: string): Promise<Versioned<BlockAffinity>> {
    return this.#noted(await this.#inner.update(key, value, revision));
  }

  async delete(key: AffinityKey, revision: string): Promise<void> {
    await this.#inner.delete(key, revision);
    if (this.#isOurs(key.owner)) this.#writes.set(key.cidr, { atMs: this.#nowMs(), version: numberOf(revision) });
  }

  async listByOwner(owner: BlockOwner, family: 4 | 6, options?: ListOptions): Promise<readonly Versioned<BlockAffinity>[]> {
    const listed = options?.mayBeOld === true && this.#isOurs(owner) ? allFromCopy(this.#copies?.copy) : undefined;
    if (listed === undefined) return this.#inner.listByOwner(owner, family, options);
    const isWanted = ({ value }: Versioned<BlockAffinity>) => value.cidr.includes(":") === (family === 6) && value.labelled;
    return this.#withOwnWrites(listed)
      .filter(isWanted)
      .toSorted((a, b) => (cidrKey(a.value.cidr) < cidrKey(b.value.cidr) ? -1 : 1));
  }

  listAll(): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.#inner.listAll();
  }

  listUnlabelled(): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.#inner.listUnlabelled();
  }

  #withOwnWrites(listed: readonly Versioned<BlockAffinity>[]): readonly Versioned<BlockAffinity>[] {
    const found = new Map(listed.map((affinity) => [affinity.value.cidr, affinity]));
    const oldest = this.#nowMs() - MOST_LATE_MS;
    for (const [cidr, { atMs, version, written }] of this.#writes) {
      const seen = found.get(cidr);
      const isOutdated = atMs < oldest || (seen !== undefined && numberOf(seen.revision) > version);
      if (isOutdated) this.#writes.delete(cidr);
      else if (written === undefined) found.delete(cidr);
      else found.set(cidr, written);
    }
    return [...found.values()];
  }

  #noted(written: Versioned<BlockAffinity>): Versioned<BlockAffinity> {
    const { owner, cidr } = written.value;
    if (this.#isOurs(owner)) this.#writes.set(cidr, { atMs: this.#nowMs(), version: numberOf(written.revision), written });
    return written;
  }

  #isOurs({ type, name }: BlockOwner): boolean {
    return this.#copies?.owner.type === type && this.#copies.owner.name === name;
  }
}

/** Versions of one store count up (KEP-5504); "<uid>/<resourceVersion>" on Kubernetes. */
function numberOf(revision: string): number {
  return Number(revision.slice(revision.indexOf("/") + 1));
}
