/** What every operation of the allocator works with, and the reads that one operation makes at most once. */
import type { BlockOwner, Datastore, Versioned } from "../../lib/datastore/datastore.ts";
import type { Block, IPPool, IpamConfiguration } from "../../lib/datastore/resources.ts";
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

/**
 * The store as one operation sees it: each thing is read when it is first asked for, and once.
 * Only objects that are not compared-and-swapped come from here, and lists that choose where to try.
 */
export class View {
  readonly pools: () => Promise<readonly IPPool[]>;
  readonly reservations: () => Promise<Reservations>;
  readonly configuration: () => Promise<IpamConfiguration>;
  #blocks: (() => Promise<readonly Versioned<Block>[]>) | undefined;
  readonly #datastore: Datastore;
  /** No labels when the store knows no such node, and for the virtual owner (I§3.1). */
  readonly nodeLabels: () => Promise<Labels>;
  readonly namespaceLabels: () => Promise<Labels>;

  constructor(datastore: Datastore, owner?: BlockOwner, namespace?: string) {
    this.pools = once(async () => (await datastore.pools.list()).map((pool) => pool.value));
    this.reservations = once(async () => new Reservations((await datastore.reservations.list()).map((reservation) => reservation.value)));
    this.configuration = once(async () => (await datastore.ipamConfiguration.get("default"))?.value ?? DEFAULT_CONFIGURATION);
    this.#datastore = datastore;
    this.nodeLabels = once(async () => (owner?.type === "host" ? ((await datastore.nodes.get(owner.name))?.value.labels ?? {}) : {}));
    this.namespaceLabels = once(async () =>
      namespace === undefined ? {} : ((await datastore.namespaces.get(namespace))?.value.labels ?? {}),
    );
  }

  /** Every block of the cluster as last listed: a choice made from it must be confirmed by a compare-and-swap. */
  blocks(): Promise<readonly Versioned<Block>[]> {
    this.#blocks ??= once(() => this.#datastore.blocks.list());
    return this.#blocks();
  }

  get areBlocksListed(): boolean {
    return this.#blocks !== undefined;
  }

  /** The list has led astray: the next one to ask lists again. */
  forgetBlocks(): void {
    this.#blocks = undefined;
  }
}

export type Labels = Readonly<Record<string, string>>;

/** Reads when first asked, and only then. */
export function once<T>(read: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= read();
    return result;
  };
}
