/** What every operation of the allocator works with, and the reads that one operation makes at most once. */
import type { Family } from "../../lib/addresses/address.ts";
import type { BlockOwner, Datastore, Versioned } from "../../lib/datastore/datastore.ts";
import { DatastoreError, type DatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block, BlockAffinity, IPPool, IpamConfiguration, LabelledObject } from "../../lib/datastore/resources.ts";
import type { Labels } from "../../lib/selector/selector.ts";
import { once } from "../../lib/system/once.ts";
import type { Clock } from "./allocator.ts";
import { Reservations } from "./reservations.ts";

export interface Context {
  readonly datastore: Datastore;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly sleep: (milliseconds: number, signal: AbortSignal | undefined) => Promise<void>;
}

/** What holds while nobody has written a configuration (I§2.6). */
export const DEFAULT_CONFIGURATION: IpamConfiguration = {
  strictAffinity: false,
  autoAllocateBlocks: true,
  maxBlocksPerHost: 0,
  kubeVirtVMAddressPersistence: "Enabled",
  ipCooldownSeconds: 0,
};

/** Whose labels meet the selectors of pools. */
export interface ViewOf {
  readonly owner?: BlockOwner | undefined;
  readonly namespace?: string | undefined;
  /** Nodes and namespaces are objects of the store, so that a missing one is an error; else it is one without labels. */
  readonly mustExist?: boolean;
  /** Lists may come from a store's memory where it has one, pools and affinities until they are refreshed. */
  readonly mayBeOld?: boolean;
}

/**
 * The store as one operation sees it: each thing is read when it is first asked for, and once.
 * Only objects that are not compared-and-swapped come from here, and lists that choose where to try.
 */
export class View {
  readonly configuration: () => Promise<IpamConfiguration>;
  #blocks: (() => Promise<readonly Versioned<Block>[]>) | undefined;
  readonly #datastore: Datastore;
  readonly #owner: BlockOwner | undefined;
  readonly #mustExist: boolean;
  readonly #nodes = new Map<string, Promise<Labels>>();
  readonly #mayBeOld: boolean;
  #poolsMayBeOld: boolean;
  #affinitiesMayBeOld: boolean;
  #pools: Promise<readonly IPPool[]> | undefined;
  #reservations: Promise<Reservations> | undefined;
  readonly #affinities = new Map<Family, Promise<readonly Versioned<BlockAffinity>[]>>();
  /** Read when a pool has a namespace selector. @throws DatastoreError "failed to get namespace …" (I§1.6) */
  readonly namespaceLabels: () => Promise<Labels>;

  constructor(datastore: Datastore, { owner, namespace, mustExist = false, mayBeOld = false }: ViewOf = {}) {
    this.configuration = once(async () => (await datastore.ipamConfiguration.get("default"))?.value ?? DEFAULT_CONFIGURATION);
    this.#datastore = datastore;
    this.#owner = owner;
    this.#mustExist = mustExist;
    this.#mayBeOld = mayBeOld && datastore.traits.listsFromMemory;
    this.#poolsMayBeOld = this.#mayBeOld;
    this.#affinitiesMayBeOld = this.#mayBeOld;
    this.namespaceLabels = once(() => this.#readNamespace(namespace));
  }

  /** Whether the list of affinities may lag behind what was written. */
  get affinitiesMayBeOld(): boolean {
    return this.#affinitiesMayBeOld;
  }

  /** The list has led nowhere: whoever asks from now on gets one that knows of every write before. */
  refreshAffinities(): void {
    this.#affinitiesMayBeOld = false;
    this.forgetAffinities();
  }

  get poolsMayBeOld(): boolean {
    return this.#poolsMayBeOld;
  }

  /** As `refreshAffinities`. */
  refreshPools(): void {
    this.#poolsMayBeOld = false;
    this.#pools = undefined;
  }

  pools(): Promise<readonly IPPool[]> {
    this.#pools ??= this.#listPools();
    return this.#pools;
  }

  reservations(): Promise<Reservations> {
    this.#reservations ??= this.#listReservations();
    return this.#reservations;
  }

  /** Those of the view's own owner. */
  affinities(family: Family): Promise<readonly Versioned<BlockAffinity>[]> {
    let listed = this.#affinities.get(family);
    if (listed === undefined) {
      if (this.#owner === undefined) throw new Error("a view without owner has no affinities");
      listed = this.#datastore.affinities.listByOwner(this.#owner, family, { mayBeOld: this.#affinitiesMayBeOld });
      this.#affinities.set(family, listed);
    }
    return listed;
  }

  /** Somebody else of the same owner has been at work. */
  forgetAffinities(): void {
    this.#affinities.clear();
  }

  /** Those of the view's own node, or of another; none for the virtual owner (I§3.1). Read when a pool has a node selector. */
  nodeLabels(owner = this.#owner): Promise<Labels> {
    if (owner?.type !== "host") return Promise.resolve({});
    const { name } = owner;
    let labels = this.#nodes.get(name);
    if (labels === undefined) {
      labels = this.#readNode(name);
      this.#nodes.set(name, labels);
    }
    return labels;
  }

  /** Every block of the cluster as last listed: a choice made from it must be confirmed by a compare-and-swap. */
  blocks(): Promise<readonly Versioned<Block>[]> {
    this.#blocks ??= once(() => this.#datastore.blocks.list());
    return this.#blocks();
  }

  async #listPools(): Promise<readonly IPPool[]> {
    return (await this.#datastore.pools.list({ mayBeOld: this.#poolsMayBeOld })).map((pool) => pool.value);
  }

  async #listReservations(): Promise<Reservations> {
    const listed = await this.#datastore.reservations.list({ mayBeOld: this.#mayBeOld });
    return new Reservations(listed.map((reservation) => reservation.value));
  }

  async #readNode(name: string): Promise<Labels> {
    const node = await this.#datastore.nodes.get(name);
    if (node === undefined && this.#mustExist) {
      throw new DatastoreError("not-found", `resource does not exist: Node(${name}) with error: nodes "${name}" not found`);
    }
    return node?.value.labels ?? {};
  }

  async #readNamespace(name: string | undefined): Promise<Labels> {
    if (name === undefined) return {};
    const failed = (kind: DatastoreFailure, reason: string, cause?: unknown) =>
      new DatastoreError(kind, `failed to get namespace ${name}: ${reason}`, cause);
    let namespace: Versioned<LabelledObject> | undefined;
    try {
      namespace = await this.#datastore.namespaces.get(name);
    } catch (error) {
      throw error instanceof DatastoreError ? failed(error.failure, error.message, error) : error;
    }
    if (namespace === undefined && this.#mustExist) throw failed("not-found", `namespaces "${name}" not found`);
    return namespace?.value.labels ?? {};
  }

  get areBlocksListed(): boolean {
    return this.#blocks !== undefined;
  }

  /** The list has led astray: the next one to ask lists again. */
  forgetBlocks(): void {
    this.#blocks = undefined;
  }
}
