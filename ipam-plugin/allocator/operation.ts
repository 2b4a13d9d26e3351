/**
 * Represents one operation of the allocator, from a call to its answer: the store as the operation sees it, the signal that
 * ends it, the clock, randomness, and how often it tries. Every function of the allocator that asks the store or
 * the clock takes it as its first parameter.
 */

import type { Family } from "../../lib/addresses/address.ts";
import type { Datastore, Versioned } from "../../lib/datastore/datastore.ts";
import { DatastoreError, type DatastoreFailure, isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block, BlockAffinity, BlockOwner, IPPool, IpamConfiguration, LabelledObject } from "../../lib/datastore/resources.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Labels } from "../../lib/selector/selector.ts";
import { once, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { hasCooling, normalise } from "./block.ts";
import { type BlockWriter, WRITES_ALONE } from "./block-write.ts";
import { Reservations } from "./reservations.ts";
import { AGAIN, type AssignedAddress, type Clock, type FamilyRequest, type Try } from "./types.ts";

export interface AllocatorServices {
  readonly datastore: Datastore;
  readonly clock: Clock;
  /** Yields numbers in [0, 1): jitter of the back-off, and the start in pools of single-address blocks. Default Math.random. */
  readonly random?: () => number;
  /** Reports what does not stop an operation but a person should know. Default: nowhere. */
  readonly log?: (message: string) => void;
  /** Waits between tries. Default: a timer that an abort ends early. */
  readonly sleep?: (milliseconds: number, signal: AbortSignal | undefined) => Promise<void>;
  /** Writes blocks for all operations of the process. Default: each operation by itself. */
  readonly writer?: BlockWriter;
  /** Called after addresses of one family were assigned: time to do what the next operation would have to wait for. */
  readonly onAssigned?: (operation: Operation, request: FamilyRequest, addresses: readonly AssignedAddress[]) => void;
}

/** Holds the defaults without a stored configuration (I§2.6). */
export const DEFAULT_CONFIGURATION: IpamConfiguration = {
  strictAffinity: false,
  autoAllocateBlocks: true,
  maxBlocksPerHost: 0,
  kubeVirtVMAddressPersistence: "Enabled",
  ipCooldownSeconds: 0,
};

/** Bounds tries as Calico does everywhere (I§5.1). */
const MOST_TRIES = 100;
/** Lets a loser try again at once; from here on it steps aside, so that many losers do not collide for ever. */
const IMMEDIATE_TRIES = 2;
const LONGEST_PAUSE_MS = 50;

export interface OperationOptions {
  /** Whose blocks and node labels count. */
  readonly owner?: BlockOwner | undefined;
  /** Its labels meet the namespace selectors of pools. */
  readonly namespace?: string | undefined;
  /** Nodes and namespaces are objects of the store, so that a missing one is an error; else it is one without labels. */
  readonly mustExist?: boolean;
  /** Lists and first reads may come from a store's memory where it has one, until they are refreshed. */
  readonly mayBeOld?: boolean;
  /** Ends the operation between two tries: what it has taken by then stays taken. */
  readonly signal?: AbortSignal | undefined;
}

/** Lists what a store may answer from memory. Labels go with the pools. */
const REMEMBERED = ["pools", "reservations", "affinities", "configuration", "handles"] as const;
type Remembered = (typeof REMEMBERED)[number];

/**
 * Reads each thing of the store once, when it is first asked for. Only objects that are not
 * compared-and-swapped come from them, and lists that choose where to try; blocks, handles and affinities about to
 * be written are read from `datastore`.
 */
export class Operation {
  readonly datastore: Datastore;
  readonly clock: Clock;
  /** Yields numbers in [0, 1). */
  readonly random: () => number;
  /** What does not stop the operation, and a person should know. */
  readonly log: (message: string) => void;
  readonly signal: AbortSignal | undefined;
  readonly writer: BlockWriter;
  readonly onAssigned: AllocatorServices["onAssigned"];
  /** Read when a pool has a namespace selector. @throws DatastoreError "failed to get namespace …" (I§1.6) */
  readonly namespaceLabels: () => Promise<Labels>;
  readonly #services: AllocatorServices;
  readonly #options: OperationOptions;
  /** What may come from the store's memory. */
  readonly #old: Set<Remembered>;
  #configuration: Promise<IpamConfiguration> | undefined;
  #pools: Promise<readonly IPPool[]> | undefined;
  #reservations: Promise<Reservations> | undefined;
  readonly #affinities = new Map<Family, Promise<readonly Versioned<BlockAffinity>[]>>();
  readonly #nodes = new Map<string, Promise<Labels>>();
  #blocks: Promise<readonly Versioned<Block>[]> | undefined;

  constructor(services: AllocatorServices, options: OperationOptions = {}) {
    const { datastore, clock, random = Math.random, log = () => {} } = services;
    this.datastore = datastore;
    this.clock = clock;
    this.random = random;
    this.log = log;
    this.signal = options.signal;
    this.writer = services.writer ?? WRITES_ALONE;
    this.onAssigned = services.onAssigned;
    this.#services = services;
    this.#options = options;
    this.#old = new Set(options.mayBeOld === true && datastore.traits.listsFromMemory ? REMEMBERED : []);
    this.namespaceLabels = once(() => this.#readNamespace(options.namespace));
  }

  /** Returns an operation for undoing, which an abort must not stop half-way. */
  withoutSignal(): Operation {
    return new Operation(this.#services, { ...this.#options, signal: undefined });
  }

  /** Tells whether what is read may lag behind what was written. */
  mayBeOld(kind: Remembered): boolean {
    return this.#old.has(kind);
  }

  /**
   * Makes later reads of these kinds know every write before: what came from memory is read again when it is asked for. Claiming a block, or
   * refusing an address, must not rest on memory.
   */
  refresh(...kinds: readonly Remembered[]): void {
    for (const kind of kinds) {
      if (!this.#old.delete(kind)) continue;
      if (kind === "pools") this.#pools = undefined;
      else if (kind === "reservations") this.#reservations = undefined;
      else if (kind === "configuration") this.#configuration = undefined;
      else if (kind === "affinities") this.forgetAffinities();
    }
  }

  /** Makes the next request list again, from memory where that is still allowed. */
  forgetAffinities(): void {
    this.#affinities.clear();
  }

  configuration(): Promise<IpamConfiguration> {
    this.#configuration ??= this.#readConfiguration();
    return this.#configuration;
  }

  pools(): Promise<readonly IPPool[]> {
    this.#pools ??= this.#listPools();
    return this.#pools;
  }

  reservations(): Promise<Reservations> {
    this.#reservations ??= this.#listReservations();
    return this.#reservations;
  }

  /** Lists the affinities of the operation's own owner. */
  affinities(family: Family): Promise<readonly Versioned<BlockAffinity>[]> {
    const { owner } = this.#options;
    if (owner === undefined) throw new Error("an operation without owner has no affinities");
    return this.#affinities.getOrInsertComputed(family, () =>
      this.datastore.affinities.listByOwner(owner, family, { mayBeOld: this.mayBeOld("affinities") }),
    );
  }

  /** Returns the block with what has finished cooling set free; the configuration is read only when something cools. */
  async normalised(block: Block): Promise<Block> {
    if (!hasCooling(block)) return block;
    return normalise(block, (await this.configuration()).ipCooldownSeconds, this.clock.nowMs());
  }

  /** Does the same for a block that is to be given up, even when the configuration cannot be read. */
  async cooled(block: Block): Promise<Block> {
    return hasCooling(block) ? normalise(block, await this.cooldownForRelease(), this.clock.nowMs()) : block;
  }

  /** Says how long a released address is kept back: not at all where the configuration cannot be read, so that pods can be deleted. */
  async cooldownForRelease(): Promise<number> {
    try {
      return (await this.configuration()).ipCooldownSeconds;
    } catch (error) {
      if (!isDatastoreFailure(error, "invalid")) throw error;
      this.log(`releasing without a cooldown: ${messageOf(error)}`);
      return 0;
    }
  }

  /** Reads the labels of the operation's own node, or of another; none for the virtual owner (I§3.1). Read when a pool has a node selector. */
  nodeLabels(owner = this.#options.owner): Promise<Labels> {
    if (owner?.type !== "host") return Promise.resolve({});
    const { name } = owner;
    return this.#nodes.getOrInsertComputed(name, () => this.#readNode(name));
  }

  /** Lists every block of the cluster, as last read: a choice made from it must be confirmed by a compare-and-swap. */
  blocks(): Promise<readonly Versioned<Block>[]> {
    this.#blocks ??= this.datastore.blocks.list();
    return this.#blocks;
  }

  get areBlocksListed(): boolean {
    return this.#blocks !== undefined;
  }

  /** Drops the list, which turned out to be out of date; the next request lists again. */
  forgetBlocks(): void {
    this.#blocks = undefined;
  }

  /**
   * Refuses a node without an object, which owns no blocks: no other node would route to them.
   * @throws DatastoreError `not-found`, where nodes are objects
   */
  async requireNode(): Promise<void> {
    if (this.#options.mustExist) await this.nodeLabels();
  }

  /**
   * Runs `attempt` until it has a result. Safe to repeat because an attempt that says AGAIN has written nothing, or has undone it.
   * @param what the object, for the message
   * @throws TortieError `datastore-contention` after 100 tries; the signal's reason when it is aborted between two tries
   */
  async retry<T>(what: string, attempt: () => Promise<Try<T>>): Promise<T> {
    const pause = this.#services.sleep ?? SYSTEM_CLOCK.sleep;
    for (let tries = 1; ; tries++) {
      this.signal?.throwIfAborted();
      const outcome = await attempt();
      if (outcome !== AGAIN) return outcome.result;
      if (tries === MOST_TRIES) {
        throw new TortieError(
          "datastore-contention",
          `Max retries hit - excessive concurrent IPAM requests (${what}, ${MOST_TRIES} tries)`,
        );
      }
      if (tries >= IMMEDIATE_TRIES) await pause(pauseBefore(tries, this.random), this.signal);
    }
  }

  async #readConfiguration(): Promise<IpamConfiguration> {
    const stored = await this.datastore.ipamConfiguration.get("default", { mayBeOld: this.mayBeOld("configuration") });
    return stored?.value ?? DEFAULT_CONFIGURATION;
  }

  async #listPools(): Promise<readonly IPPool[]> {
    return (await this.datastore.pools.list({ mayBeOld: this.mayBeOld("pools") })).map((pool) => pool.value);
  }

  async #listReservations(): Promise<Reservations> {
    const listed = await this.datastore.reservations.list({ mayBeOld: this.mayBeOld("reservations") });
    return new Reservations(listed.map((reservation) => reservation.value));
  }

  async #readNode(name: string): Promise<Labels> {
    const node = await this.datastore.nodes.get(name, { mayBeOld: this.mayBeOld("pools") });
    if (node === undefined && this.#options.mustExist) {
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
      namespace = await this.datastore.namespaces.get(name, { mayBeOld: this.mayBeOld("pools") });
    } catch (error) {
      throw error instanceof DatastoreError ? failed(error.failure, error.message, error) : error;
    }
    if (namespace === undefined && this.#options.mustExist) throw failed("not-found", `namespaces "${name}" not found`);
    return namespace?.value.labels ?? {};
  }
}

/** Returns a random share of a time that doubles, in milliseconds. */
function pauseBefore(tries: number, random: () => number): number {
  return random() * Math.min(2 ** (tries - IMMEDIATE_TRIES), LONGEST_PAUSE_MS);
}
