/** A small cluster made from a seed: pools of a few blocks, a configuration, nodes that each do a few random things. */

import { sharedServices } from "../../../agent/addresses/blocks-parts.ts";
import { cachedDatastore } from "../../../agent/addresses/cached-datastore.ts";
import { Allocator, type Clock } from "../../../ipam-plugin/allocator/allocator.ts";
import { DEFAULT_CONFIGURATION } from "../../../ipam-plugin/allocator/operation.ts";
import { isGone } from "../../../ipam-plugin/allocator/release-ips.ts";
import type { AutoAssignResult } from "../../../ipam-plugin/allocator/types.ts";
import { type Address, addressAt, formatAddress, formatPrefix, hostPrefix, type Prefix } from "../../../lib/addresses/address.ts";
import type { BlockOwner, IpamConfiguration } from "../../../lib/datastore/resources.ts";
import { prefix } from "../addresses.ts";
import { claim, giveUpBlocks } from "../blocks.ts";
import { withoutIndexOfRoom } from "../cluster.ts";
import { LaggingMemory, MemoryStore, type Recollection } from "../memory-datastore.ts";
import { samplePool, sampleRequest } from "../samples.ts";
import { type Scheduler, seededRandom } from "../scheduler.ts";
import { GIVEN_BACK, ReferenceModel } from "./reference.ts";

const POOL4 = prefix("10.0.0.0/28");

/** A handle that several nodes assign to and release, all at once. */
const SHARED = "net.shared";

export interface WorldOptions {
  readonly nodes: number;
  readonly operationsPerNode: number;
  /** Calls fail now and then: an operation may be refused although it was carried out. */
  readonly hasFaults?: boolean;
  /** The first nodes, so many, have an agent: it does everything of its node at once, and writes together (agent/addresses/). */
  readonly agents?: number;
}

/** One thing a node does. */
interface Operation {
  readonly name: string;
  run(allocator: Allocator, node: Node): Promise<void>;
}

/** A node knows what its operations gave it: it holds that until it begins to give it back. */
interface Node {
  readonly owner: BlockOwner;
  readonly holds: Map<string, { address: Address; sequenceNumber: bigint }[]>;
  /** What its server's lists are made of, where that lags behind; of an agent, what it remembers. */
  readonly memory: Recollection | undefined;
  /** Does its operations at once. */
  readonly isAgent: boolean;
  /** Handles that one of its operations gives back right now. */
  readonly busy: Set<string>;
}

export class World {
  readonly store = new MemoryStore();
  /** Virtual time, as the model sees it. */
  clock: Clock;
  readonly configuration: IpamConfiguration;
  readonly model: ReferenceModel;
  /** Every handle that any operation uses: what a runtime would send DEL for. */
  readonly handles = new Set<string>();
  readonly nodes: readonly Node[];
  readonly #random: () => number;
  readonly #options: WorldOptions;
  readonly #reserved: Prefix | undefined;
  readonly #findsRoom: boolean;
  /** Most of what is done concerns one handle. */
  readonly #isContended: boolean;
  /** Nodes that are doing something for which the limit of blocks does not count. */
  readonly #unlimited = new Set<string>();
  #containers = 0;
  /** Two calls never have the same time. */
  #assignments = 0;

  constructor(seed: number, scheduler: Scheduler, options: WorldOptions) {
    this.clock = scheduler.clock;
    this.#random = seededRandom(seed ^ 0x5eed);
    this.#options = options;
    this.configuration = {
      ...DEFAULT_CONFIGURATION,
      strictAffinity: this.#chance(0.3),
      maxBlocksPerHost: this.#chance(0.2) ? 1 : 0,
      ipCooldownSeconds: this.#chance(0.3) ? 30 : 0,
    };
    this.#reserved = this.#chance(0.2) ? hostPrefix(addressAt(POOL4, this.#below(16))) : undefined;
    this.#findsRoom = this.#chance(0.5);
    this.#isContended = this.#chance(0.25);
    this.model = new ReferenceModel({
      store: this.store,
      configuration: this.configuration,
      nowMs: () => this.clock.nowMs(),
      isReserved: (text) => this.#isReserved(text),
      isLimited: (node) => options.hasFaults !== true && !this.#unlimited.has(node),
    });
    this.nodes = Array.from({ length: options.nodes }, (_, index) => ({
      owner: { type: "host", name: `node-${index}` },
      holds: new Map(),
      memory: !this.#findsRoom && this.#chance(0.6) ? lagging(this.store, scheduler.random) : undefined,
      isAgent: index < (options.agents ?? 0),
      busy: new Set(),
    }));
  }

  async seed(): Promise<void> {
    const { pools, reservations, ipamConfiguration } = this.store.connect();
    await pools.create("p4", samplePool("p4", formatPrefix(POOL4), { blockSize: 30 }));
    await pools.create("p6", samplePool("p6", "fd00::/126", { blockSize: 127 }));
    await ipamConfiguration.create("default", this.configuration);
    if (this.#reserved !== undefined) {
      await reservations.create("r", { name: "r", reservedCIDRs: [formatAddress(this.#reserved.address)] });
    }
  }

  /** An allocator of one client of the store. */
  allocator(client: string, scheduler: Scheduler, { memory, isAgent }: Partial<Pick<Node, "memory" | "isAgent">> = {}): Allocator {
    const connected = this.store.connect(client, scheduler.gate, memory);
    const datastore = this.#findsRoom ? connected : withoutIndexOfRoom(connected);
    return new Allocator({
      datastore: isAgent === true ? cachedDatastore(datastore) : datastore,
      clock: scheduler.clock,
      random: scheduler.random,
      sleep: scheduler.sleep,
      ...(isAgent === true ? sharedServices() : {}),
    });
  }

  /** What each node will do, one thing after the other; an agent's at once. */
  tasks(scheduler: Scheduler, onRefusal: (error: unknown) => void): readonly (() => Promise<void>)[] {
    return this.nodes.flatMap((node) => {
      const allocator = this.allocator(node.owner.name, scheduler, node);
      const operations = Array.from({ length: this.#options.operationsPerNode }, () => this.#operation(node, scheduler));
      const run = async (operation: Operation): Promise<void> => {
        scheduler.trace.push(`${node.owner.name}: ${operation.name}`);
        try {
          await operation.run(allocator, node);
        } catch (error) {
          onRefusal(error);
        }
      };
      if (node.isAgent) return operations.map((operation) => () => run(operation));
      return async () => {
        for (const operation of operations) await run(operation);
      };
    });
  }

  /** What the nodes believe to hold is what the model has seen granted and not released. */
  checkHoldings(): void {
    const believed = this.nodes.flatMap(({ holds }) =>
      [...holds].flatMap(([handle, held]) => held.map(({ address }) => `${formatAddress(address)} ${handle}`)),
    );
    const granted = [...this.model.held]
      .filter(([, { handle }]) => !handle.startsWith("vm.") && handle !== SHARED)
      .map(([address, { handle }]) => `${address} ${handle}`);
    if (believed.sort().join() !== granted.sort().join()) {
      throw new Error(`nodes hold [${believed.join(", ")}], granted are [${granted.join(", ")}]`);
    }
  }

  #operation(self: Node, scheduler: Scheduler): Operation {
    const kind = this.#isContended && this.#chance(0.6) ? 19 + this.#below(4) : this.#below(24);
    if (kind < 6) return this.#add(this.#newHandle(), 1, this.#chance(0.3) ? 1 : 0);
    if (kind < 7) return this.#add(this.#newHandle(), 2 + this.#below(5), 0);
    if (kind < 8) return this.#addAndGiveBack(this.#newHandle(GIVEN_BACK));
    if (kind < 11) return this.#deleteOne();
    if (kind < 12) return this.#releaseOne();
    if (kind < 13) return this.#assignIp(addressAt(POOL4, this.#below(16)));
    if (kind < 15) return this.#virtualMachineAdd("vm.a");
    if (kind < 16) return this.#virtualMachineDelete("vm.a");
    if (kind < 17) return this.#emptyHost(this.nodes[this.#below(this.nodes.length)] ?? self);
    if (kind < 18) return this.#claim();
    if (kind < 19) return this.#addTwice();
    if (kind < 21) return this.#sharedAdd(SHARED);
    if (kind < 22) return this.#collect(SHARED);
    if (kind < 23) return this.#releaseShared(SHARED);
    const milliseconds = [500, 31_000, 61_000][this.#below(3)] ?? 0;
    return {
      name: `${milliseconds} ms pass`,
      async run() {
        scheduler.advance(milliseconds);
      },
    };
  }

  #add(handle: string, count4: number, count6: number): Operation {
    return {
      name: `assign ${count4}+${count6} to ${handle}`,
      run: async (allocator, node) => {
        this.#hold(node, handle, await this.#autoAssign(allocator, node, handle, count4, count6));
      },
    };
  }

  #addTwice(): Operation {
    const handle = this.#newHandle();
    return {
      name: `assign to ${handle} twice`,
      run: async (allocator, node) => {
        this.#hold(node, handle, await this.#autoAssign(allocator, node, handle, 1, 0));
        this.#hold(node, handle, await this.#autoAssign(allocator, node, handle, 1, 1));
      },
    };
  }

  #addAndGiveBack(handle: string): Operation {
    return {
      name: `assign to ${handle} and give back`,
      run: async (allocator, node) => {
        const result = await this.#autoAssign(allocator, node, handle, 1, 1);
        await allocator.giveBack(result, handle, { neverUsed: true });
      },
    };
  }

  #deleteOne(): Operation {
    const choice = this.#random();
    return {
      name: "delete a handle",
      run: async (allocator, { holds, busy }) => {
        const handles = [...holds.keys()].filter((handle) => !busy.has(handle));
        const handle = handles[Math.floor(choice * handles.length)];
        if (handle === undefined) return;
        const had = holds.get(handle)?.length ?? 0;
        holds.delete(handle);
        const { released } = await allocator.releaseByHandle(handle);
        if (released.length !== had && !this.#options.hasFaults)
          throw new Error(`${handle} had ${had} addresses, ${released.length} were released`);
      },
    };
  }

  #releaseOne(): Operation {
    const isStale = this.#chance(0.3);
    return {
      name: isStale ? "release an address by a stale number" : "release an address",
      run: async (allocator, { holds, busy }) => {
        for (const [handle, held] of holds) {
          const first = held[0];
          if (first === undefined || busy.has(handle)) continue;
          const sequenceNumber = isStale ? first.sequenceNumber - 1n : first.sequenceNumber;
          if (!isStale) held.shift();
          busy.add(handle);
          const { error, unallocated } = await allocator.releaseIps([{ address: first.address, handle, sequenceNumber }]);
          busy.delete(handle);
          if (isStale !== (error !== undefined)) throw error ?? new Error("a stale release went through");
          if (unallocated.length > 0 && !this.#options.hasFaults) throw new Error(`${formatAddress(first.address)} was free already`);
          return;
        }
      },
    };
  }

  #assignIp(address: Address): Operation {
    const handle = `ip.${++this.#containers}`;
    this.handles.add(handle);
    return {
      name: `assign ${formatAddress(address)} to ${handle}`,
      run: async (allocator, { owner, holds }) => {
        const attributes = { node: owner.name };
        const { sequenceNumber } = await this.#beyondLimit(owner, () =>
          allocator.assignIp({ address, handle, attributes, owner, use: "Workload" }),
        );
        holds.set(handle, [...(holds.get(handle) ?? []), { address, sequenceNumber }]);
      },
    };
  }

  /** Several nodes use the handle at once: what each gets may be released by another before it looks. */
  #virtualMachineAdd(handle: string): Operation {
    this.handles.add(handle);
    return {
      name: `assign to ${handle}, at most one`,
      run: async (allocator, { owner }) => {
        const request = sampleRequest(owner.name, handle, { owner, perHandleLimit: 1 });
        const { ipv4 } = await allocator.autoAssign(request, { mayBeOld: true });
        this.model.observe();
        const held = [...this.model.held.values()].filter((holding) => holding.handle === handle).length;
        if (held > 1) throw new Error(`${handle} holds ${held} addresses, its limit is 1`);
        if (ipv4?.error !== undefined) throw ipv4.error;
      },
    };
  }

  #virtualMachineDelete(handle: string): Operation {
    return {
      name: `delete ${handle}`,
      run: async (allocator) => {
        await allocator.releaseByHandle(handle);
      },
    };
  }

  /** An ADD whose handle others release while it is under way, as kube-controllers and the GC of a node without its lock may. */
  #sharedAdd(handle: string): Operation {
    const count4 = 1 + this.#below(2);
    const count6 = this.#chance(0.3) ? 1 : 0;
    this.handles.add(handle);
    return {
      name: `assign ${count4}+${count6} to ${handle}, which others release`,
      run: async (allocator, node) => {
        const { ipv4, ipv6 } = await this.#autoAssign(allocator, node, handle, count4, count6);
        const error = ipv4?.error ?? ipv6?.error;
        if (error !== undefined) throw error;
      },
    };
  }

  #collect(handle: string): Operation {
    const isMending = this.#chance(0.5);
    return {
      name: isMending ? `mend the counts of ${handle}` : `collect ${handle}`,
      run: async (allocator) => {
        // No allocation has this number: only what the handle counts is set right (gc.ts).
        await allocator.releaseByHandle(handle, isMending ? { sequenceNumbers: new Set() } : {});
      },
    };
  }

  /** Addresses of a handle that others take and release at the same time; those that have gone since are no concern. */
  #releaseShared(handle: string): Operation {
    return {
      name: `release the addresses of ${handle} one by one`,
      run: async (allocator) => {
        const held = (await allocator.addressesByHandle(handle)) ?? [];
        const { error } = await allocator.releaseIps(
          held.map(({ address, block, sequenceNumber }) => ({ address, block, handle, sequenceNumber })),
        );
        if (error !== undefined && !isGone(error)) throw error;
      },
    };
  }

  #emptyHost({ owner }: Node): Operation {
    const mustBeEmpty = this.#chance(0.7);
    return {
      name: `release ${mustBeEmpty ? "empty" : "all"} blocks of ${owner.name}`,
      run: (allocator) => giveUpBlocks(allocator, owner, { mustBeEmpty }),
    };
  }

  #claim(): Operation {
    const cidr = `10.0.0.${4 * this.#below(4)}/30`;
    return {
      name: `claim ${cidr}`,
      run: async (allocator, { owner }) => {
        await this.#beyondLimit(owner, () => claim(allocator, cidr, owner));
      },
    };
  }

  #autoAssign(allocator: Allocator, { owner }: Node, handle: string, count4: number, count6: number): Promise<AutoAssignResult> {
    const attributes = { node: owner.name, timestamp: String(++this.#assignments) };
    return allocator.autoAssign(sampleRequest(owner.name, handle, { count4, count6, attributes, owner }), { mayBeOld: true });
  }

  #hold({ holds }: Node, handle: string, { ipv4, ipv6 }: AutoAssignResult): void {
    const got = [...(ipv4?.addresses ?? []), ...(ipv6?.addresses ?? [])].map(({ prefix, sequenceNumber }) => ({
      address: prefix.address,
      sequenceNumber,
    }));
    // The answer comes before the scheduler's look at the store.
    this.model.observe();
    for (const { address, sequenceNumber } of got) {
      const holding = this.model.held.get(formatAddress(address));
      if (holding?.handle !== handle || holding.sequenceNumber !== sequenceNumber) {
        throw new Error(`${handle} was told ${formatAddress(address)}, which is ${holding?.handle ?? "nobody"}'s`);
      }
    }
    if (got.length > 0) holds.set(handle, [...(holds.get(handle) ?? []), ...got]);
    const error = ipv4?.error ?? ipv6?.error;
    if (error !== undefined) throw error;
  }

  /** What an agent does at the same time counted the blocks before. */
  async #beyondLimit<T>({ name }: BlockOwner, work: () => Promise<T>): Promise<T> {
    this.#unlimited.add(name);
    try {
      return await work();
    } finally {
      if (!this.#isAgent(name)) this.#unlimited.delete(name);
    }
  }

  #isAgent(name: string): boolean {
    return this.nodes.some(({ owner, isAgent }) => isAgent && owner.name === name);
  }

  #newHandle(prefix = "net."): string {
    const handle = `${prefix}c${++this.#containers}`;
    this.handles.add(handle);
    return handle;
  }

  #isReserved(text: string): boolean {
    return this.#reserved !== undefined && formatAddress(this.#reserved.address) === text;
  }

  #chance(probability: number): boolean {
    return this.#random() < probability;
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }
}

/**
 * A memory that hears of some of what it has missed, or of nothing, each time it is asked. Only reservations it knows: who makes one waits
 * until it is known before he relies on it.
 */
function lagging(store: MemoryStore, random: () => number): Recollection {
  const memory = new LaggingMemory(store);
  return {
    rows(kind) {
      const lag = memory.lag(kind);
      memory.hear(kind, kind === "reservation" ? lag : Math.floor(random() * (lag + 1)));
      return memory.rows(kind);
    },
  };
}
