/** A store of two nodes as their ADDs leave it, everything right, for tests that then damage one thing. */

import { type CheckOptions, check, type RepairReport, repairAll } from "../../../doctor/check.ts";
import type { Problem } from "../../../doctor/problem.ts";
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { formatAddress } from "../../../lib/addresses/address.ts";
import type { AllocationAttribute, Block } from "../../../lib/datastore/resources.ts";
import { address } from "../../support/addresses.ts";
import { type Gate, type MemoryDatastore, MemoryStore } from "../../support/memory-datastore.ts";
import { sampleEndpoint, samplePool, sampleRequest } from "../../support/samples.ts";
import { change, wanted } from "../../support/stored.ts";

/** Now, and an hour before, when the addresses were given out. */
export const NOW = Date.parse("2026-11-21T10:00:00Z");
const THEN = "2026-11-21 09:00:00.5 +0000 UTC";

/** Blocks of 8: the first of each node, as its name decides. */
const POOL = samplePool("pool", "10.40.0.0/24", { blockSize: 29 });

export const SETTINGS: CheckOptions = { nowMs: () => NOW, graceMs: 15 * 60_000, isStrict: false, pause: async () => undefined };

export interface World {
  readonly store: MemoryStore;
  readonly datastore: MemoryDatastore;
  /** Of container c1 and c2 on worker-1, c3 on worker-2; each with its endpoint. */
  readonly addresses: readonly string[];
  /** The block of worker-1. */
  readonly cidr: string;
  /** Writes the block of worker-1 with these changes, as a foreign hand would. */
  readonly damage: (changes: (block: Block) => Partial<Block>) => Promise<void>;
  readonly find: (settings?: Partial<CheckOptions>) => Promise<readonly Problem[]>;
  readonly mend: (settings?: Partial<CheckOptions>) => Promise<RepairReport>;
}

export async function createWorld(gate?: Gate): Promise<World> {
  const store = new MemoryStore();
  const datastore = store.connect();
  await datastore.pools.create(POOL.name, POOL);
  const addresses: string[] = [];
  for (const [container, node] of [
    ["c1", "worker-1"],
    ["c2", "worker-1"],
    ["c3", "worker-2"],
  ] as const) {
    addresses.push(await addContainer(datastore, container, node));
  }
  const cidr = (await datastore.affinities.listByOwner({ type: "host", name: "worker-1" }, 4))[0]?.value.cidr ?? "";
  const client = store.connect("checker", gate);
  const clock = { nowMs: () => NOW, nowNs: () => BigInt(NOW) * 1_000_000n };
  const find = (settings: Partial<CheckOptions> = {}) => check(client, { ...SETTINGS, ...settings });
  return {
    store,
    datastore,
    addresses,
    cidr,
    async damage(changes) {
      const { value } = await wanted(datastore.blocks.get(cidr));
      await change(datastore.blocks, cidr, changes(value));
    },
    find,
    async mend(settings = {}) {
      const options = { ...SETTINGS, ...settings };
      return repairAll(await find(settings), { datastore: client, clock }, options, async () => undefined);
    },
  };
}

/** Takes a free ordinal of worker-1's block, with an attribute of its own. */
export function occupy({ damage }: Pick<World, "damage">, ordinal: number, attribute: AllocationAttribute): Promise<void> {
  return damage(({ allocations, attributes, unallocated }) => ({
    allocations: allocations.with(ordinal, attributes.length),
    attributes: [...attributes, attribute],
    unallocated: unallocated.filter((one) => one !== ordinal),
  }));
}

/** What an ADD writes: addresses, then the endpoint. */
export async function addContainer(datastore: MemoryDatastore, container: string, node: string, timestamp = THEN): Promise<string> {
  const address = await allocate(datastore, container, node, timestamp);
  const name = `${node}-cni-${container}-eth0`;
  const endpoint = sampleEndpoint("default", name, {
    node,
    containerID: container,
    pod: "",
    profiles: ["net"],
    ipNetworks: [`${address}/32`],
  });
  await datastore.endpoints.create({ namespace: "default", name }, endpoint);
  return address;
}

/** What an ADD that died before its endpoint leaves. */
export async function allocate(datastore: MemoryDatastore, container: string, node: string, timestamp = THEN): Promise<string> {
  const clock = { nowMs: () => NOW - 3_600_000, nowNs: () => BigInt(NOW - 3_600_000) * 1_000_000n };
  const request = sampleRequest(node, `net.${container}`, { attributes: { node, timestamp } });
  const { ipv4 } = await new Allocator({ datastore, clock }).autoAssign(request);
  const [assigned] = ipv4?.addresses ?? [];
  if (assigned === undefined) throw new Error(`no address: ${ipv4?.error?.message ?? ipv4?.messages.join()}`);
  return formatAddress(assigned.prefix.address);
}

/** Who holds an address, by what the blocks record: `undefined` when it is free or cooling. */
export async function holderOf(datastore: MemoryDatastore, text: string): Promise<string | undefined> {
  const allocator = new Allocator({ datastore, clock: { nowMs: () => NOW, nowNs: () => 0n } });
  return (await allocator.attributesOf(address(text)))?.handle;
}
