/**
 * The affinities of this node, from their watch and from what this process has written since: an ADD that waited for another to claim a
 * block finds the block, whenever the watch tells of it. The newer of the two counts.
 */
import type { AffinityKey, BlockAffinities, BlockOwner, ListOptions, Versioned } from "../../lib/datastore/datastore.ts";
import { type BlockAffinity, cidrKey } from "../../lib/datastore/resources.ts";
import { allFromCopy, type Copies } from "./copies.ts";

/** Longer than the delay of any watch that still works. */
const MOST_LATE_MS = 60_000;

interface OwnWrite {
  readonly atMs: number;
  /** Number of the state that was written, or deleted. */
  readonly version: number;
  /** Absent: deleted. */
  readonly written?: Versioned<BlockAffinity>;
}

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
