/** A cluster in memory for tests of the allocator: pools, nodes, a clock that stands still, and a count of the calls to the store. */

import { Allocator, type Within } from "../../ipam-plugin/allocator/allocator.ts";
import { DEFAULT_CONFIGURATION } from "../../ipam-plugin/allocator/operation.ts";
import type { AssignIpRequest, AutoAssignRequest, AutoAssignResult, FamilyAssignment } from "../../ipam-plugin/allocator/types.ts";
import { formatPrefix } from "../../lib/addresses/address.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import type { Block, BlockAffinity, BlockOwner, IPPool, IpamConfiguration } from "../../lib/datastore/resources.ts";
import { address } from "./addresses.ts";
import { type Fate, type Gate, LaggingMemory, type MemoryDatastore, MemoryStore } from "./memory-datastore.ts";
import { samplePool, sampleRequest } from "./samples.ts";
import { change, remove } from "./stored.ts";

export interface ClusterSetup {
  /** Lists that may be old come from `Cluster.memory`, which knows of everything that is set up here. */
  readonly hasMemory?: boolean;
  /** CIDR → what differs from a plain pool of its name `p0`, `p1` …, in this order. */
  readonly pools?: Readonly<Record<string, Partial<IPPool>>>;
  readonly configuration?: Partial<IpamConfiguration>;
  readonly reserved?: readonly string[];
  /** Name → labels. */
  readonly nodes?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly namespaces?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly blocks?: readonly Block[];
  readonly affinities?: readonly BlockAffinity[];
  readonly handles?: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** The kinds that are listed from memory. */
const REMEMBERED = ["pool", "reservation", "affinity"];

export class Cluster {
  /** Whether the store finds the blocks with room by itself; tests of what must not depend on it set both in turn. */
  static findsRoom = false;

  readonly store = new MemoryStore();
  /** Without gate: what a test seeds and looks at. */
  readonly datastore: MemoryDatastore = this.store.connect("test");
  /** What the allocator works on: with a gate. */
  readonly observed: Datastore;
  readonly allocator: Allocator;
  /** Hears of writes when a test says so. */
  readonly memory = new LaggingMemory(this.store);
  /** "get block 10-0-0-0-30": every call of the allocator, in order. */
  readonly calls: string[] = [];
  readonly logged: string[] = [];
  /** What becomes of the allocator's next calls; absent: they go through. */
  fateOf: ((call: string) => Fate | Promise<Fate>) | undefined;
  nowMs = Date.parse("2026-08-22T13:33:20.500Z");
  #ns = 1_787_405_600_123_456_000n;

  constructor(hasMemory = false) {
    const note: Gate = ({ operation, kind, key }) => {
      const call = `${operation} ${kind} ${key}`.trimEnd();
      this.calls.push(call);
      return this.fateOf?.(call) ?? "proceed";
    };
    const gate = this.store.connect("allocator", note, hasMemory ? this.memory : undefined);
    this.observed = Cluster.findsRoom ? gate : withoutIndexOfRoom(gate);
    this.allocator = new Allocator({
      datastore: this.observed,
      clock: { nowMs: () => this.nowMs, nowNs: () => this.#ns++ },
      random: () => 0.5,
      sleep: async () => {},
      log: (message) => this.logged.push(message),
    });
  }

  /** Does something behind the allocator's back, once, before the first call that begins like this. */
  before(start: string, action: () => Promise<unknown>): void {
    let isDone = false;
    this.fateOf = async (call): Promise<Fate> => {
      if (!isDone && call.startsWith(start)) {
        isDone = true;
        await action();
      }
      return "proceed";
    };
  }

  /** What becomes of every call that begins like this; an error is what the store throws. */
  answers(start: string, fate: Fate | Error): void {
    this.fateOf = (call) => {
      if (!call.startsWith(start)) return "proceed";
      if (fate instanceof Error) throw fate;
      return fate;
    };
  }

  static async create(setup: ClusterSetup = {}): Promise<Cluster> {
    const cluster = new Cluster(setup.hasMemory);
    const { datastore } = cluster;
    const pools = Object.entries(setup.pools ?? { "10.0.0.0/24": {} });
    for (const [index, [cidr, changes]] of pools.entries()) await cluster.addPool(`p${index}`, cidr, changes);
    if (setup.configuration !== undefined) await cluster.configure(setup.configuration);
    if (setup.reserved !== undefined) await datastore.reservations.create("r", { name: "r", reservedCIDRs: setup.reserved });
    for (const [name, labels] of Object.entries(setup.nodes ?? {})) await datastore.nodes.create(name, { name, labels });
    for (const [name, labels] of Object.entries(setup.namespaces ?? {})) await datastore.namespaces.create(name, { name, labels });
    for (const block of setup.blocks ?? []) await datastore.blocks.create(block.cidr, block);
    for (const affinity of setup.affinities ?? []) await datastore.affinities.create(affinity, affinity);
    for (const [id, blocks] of Object.entries(setup.handles ?? {})) await datastore.handles.create(id, { id, blocks });
    for (const kind of REMEMBERED) cluster.memory.hear(kind);
    return cluster;
  }

  async addPool(name: string, cidr: string, changes: Partial<IPPool> = {}): Promise<void> {
    const pool = samplePool(name, cidr, changes);
    await this.datastore.pools.create(pool.name, pool);
  }

  async changePool(name: string, changes: Partial<IPPool>): Promise<void> {
    await change(this.datastore.pools, name, changes);
  }

  async removePool(name: string): Promise<void> {
    await remove(this.datastore.pools, name);
  }

  async configure(changes: Partial<IpamConfiguration>): Promise<void> {
    const stored = await this.datastore.ipamConfiguration.get("default");
    const configuration: IpamConfiguration = { ...DEFAULT_CONFIGURATION, ...stored?.value, ...changes };
    if (stored === undefined) await this.datastore.ipamConfiguration.create("default", configuration);
    else await this.datastore.ipamConfiguration.update("default", configuration, stored.revision);
  }

  autoAssign(node: string, handle: string, changes: Partial<AutoAssignRequest> = {}): Promise<AutoAssignResult> {
    const count6 = changes.count6 ?? 0;
    const request = sampleRequest(node, handle, { count4: count6 > 0 ? 0 : 1, count6, ...changes });
    return this.allocator.autoAssign(request, { mayBeOld: true });
  }

  /** IPv4 addresses with prefix lengths; throws what stopped the assignment. */
  async assign(node: string, handle: string, count = 1, changes: Partial<AutoAssignRequest> = {}): Promise<readonly string[]> {
    const { ipv4 } = await this.autoAssign(node, handle, { count4: count, ...changes });
    if (ipv4?.error !== undefined) throw ipv4.error;
    return addressesOf(ipv4);
  }

  async assignIp(node: string, handle: string, text: string, changes: Partial<AssignIpRequest> = {}, within?: Within): Promise<string> {
    const request = { address: address(text), handle, attributes: { node }, owner: host(node), ...changes };
    return formatPrefix((await this.allocator.assignIp(request, within)).prefix);
  }

  async block(cidr: string): Promise<Block | undefined> {
    return (await this.datastore.blocks.get(cidr))?.value;
  }

  async blocks(): Promise<readonly Block[]> {
    return (await this.datastore.blocks.list()).map(({ value }) => value);
  }

  /** Handle → block → count. */
  async handles(): Promise<Readonly<Record<string, Readonly<Record<string, number>>>>> {
    return Object.fromEntries((await this.datastore.handles.list()).map(({ value }) => [value.id, value.blocks]));
  }

  /** "node-a 10.0.0.0/30 confirmed", in key order. */
  async affinities(): Promise<readonly string[]> {
    return (await this.datastore.affinities.listAll()).map(({ value }) => `${value.owner.name} ${value.cidr} ${value.state}`);
  }
}

/** The same store without its index of room, as a cluster's is. */
export function withoutIndexOfRoom(datastore: Datastore): Datastore {
  return { ...datastore, traits: { ...datastore.traits, findsRoom: false } };
}

export function host(name: string): BlockOwner {
  return { type: "host", name };
}

export function addressesOf(assignment: FamilyAssignment | undefined): readonly string[] {
  return (assignment?.addresses ?? []).map(({ prefix }) => formatPrefix(prefix));
}

/** Describes tests of an allocator on both kinds of stores: what it finds out differs, and what it does must not. */
export function inEachStore(tests: (findsRoom: boolean) => void): void {
  describe.each([
    ["reads the blocks one by one", false],
    ["finds the blocks with room", true],
  ])("in a store that %s:", (_store, findsRoom) => {
    beforeEach(() => {
      Cluster.findsRoom = findsRoom;
    });
    tests(findsRoom);
  });
}
