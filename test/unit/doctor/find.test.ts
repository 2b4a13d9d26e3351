import { findInconsistencies } from "../../../doctor/check.ts";
import { readSnapshot } from "../../../doctor/snapshot.ts";
import { DEFAULT_CONFIGURATION } from "../../../ipam-plugin/allocator/operation.ts";
import type { Versioned } from "../../../lib/datastore/datastore.ts";
import type { Block, Handle } from "../../../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { fresh } from "../../support/fixtures.ts";
import { emptyBlock, heldBlock, sampleAffinity, sampleEndpoint, samplePool } from "../../support/samples.ts";
import { change, remove, wanted } from "../../support/stored.ts";
import { allocate, createWorld, holderOf, NOW, occupy, SETTINGS, type World } from "./world.ts";

const WORKER_1 = { type: "host", name: "worker-1" } as const;
const WORKER_2 = { type: "host", name: "worker-2" } as const;

/** One damage, what the check says of it, and what is left when the repair is through. */
interface Case {
  readonly title: string;
  readonly damage: (world: World) => Promise<unknown>;
  /** `kind object: message` of every finding, as patterns in order. */
  readonly finds: readonly RegExp[];
  /** Kinds that stay; default none. */
  readonly stays?: readonly string[];
}

const CASES: readonly Case[] = [
  {
    title: "an allocation whose index is outside of the attributes",
    damage: (world) => world.damage((block) => ({ allocations: block.allocations.with(4, 9) })),
    finds: [
      /^allocation-without-attribute block .*: 10\.40\.0\.\d+ is allocated with an attribute that does not exist$/,
      /^free-allocated block .*: 10\.40\.0\.\d+ is listed as free, although allocated$/,
      /^address-unused address .*: is allocated without a handle, but no endpoint uses it$/,
    ],
  },
  {
    title: "an attribute that no address refers to",
    damage: (world) => world.damage((block) => ({ attributes: [...block.attributes, { handleId: "net.lost" }] })),
    finds: [/^attribute-unreferenced block .*: no address refers to attribute 2 \(handle net\.lost\)$/],
  },
  {
    title: "a release in the future",
    damage: (world) => occupy(world, 7, { releasedAt: "2026-11-21T10:05:00Z" }),
    finds: [/^release-in-future block .*: 10\.40\.0\.\d+ is released at 2026-11-21T10:05:00Z, which is yet to come$/],
  },
  {
    title: "free ordinals out of range",
    damage: (world) => world.damage((block) => ({ unallocated: [-1, ...block.unallocated, 8] })),
    finds: [/^free-out-of-range block .*: lists ordinal -1, 8 as free, the last one is 7$/],
  },
  {
    title: "a free ordinal that is listed twice",
    damage: (world) => world.damage((block) => ({ unallocated: [...block.unallocated, 5, 5] })),
    finds: [/^free-duplicate block .*: 10\.40\.0\.\d+ is listed as free more than once$/],
  },
  {
    title: "an allocated ordinal that is listed as free",
    damage: (world) => world.damage((block) => ({ unallocated: [0, ...block.unallocated] })),
    finds: [/^free-allocated block .*: 10\.40\.0\.\d+ is listed as free, although allocated$/],
  },
  {
    title: "ordinals that are neither allocated nor listed",
    damage: (world) => world.damage((block) => ({ unallocated: block.unallocated.slice(2) })),
    finds: [/^free-lost block .*: 10\.40\.0\.\d+, 10\.40\.0\.\d+ are neither allocated nor listed as free$/],
  },
  {
    title: "a block with fewer ordinals than its CIDR",
    damage: (world) =>
      world.damage((block) => ({
        allocations: block.allocations.slice(0, 6),
        unallocated: block.unallocated.filter((ordinal) => ordinal < 6),
      })),
    finds: [/^block-length block .*: has 6 ordinals, its CIDR has 8$/],
  },
  {
    title: "a block whose CIDR is none",
    damage: ({ datastore }) => datastore.blocks.create("10.40.0.999/29", emptyBlock("10.40.0.999/29", 8, { affinity: WORKER_1 })),
    finds: [/^block-cidr block 10\.40\.0\.999\/29: "10\.40\.0\.999\/29" is not the CIDR of a block$/, /^affinity-missing /],
    stays: ["block-cidr"],
  },
  {
    title: "an empty block in no pool",
    damage: ({ datastore }) => ownBlock(datastore, "10.50.0.0/29", 8),
    finds: [/^block-outside-pools block 10\.50\.0\.0\/29: lies in no pool$/],
  },
  {
    title: "blocks of a pool that was removed, with addresses in use",
    damage: async ({ datastore }) => {
      const { value } = await wanted(datastore.pools.get("pool"));
      await remove(datastore.pools, "pool");
      await datastore.pools.create("other", { ...value, name: "other", cidr: "10.41.0.0/24" });
    },
    finds: [/^block-outside-pools block /, /^block-outside-pools block /],
    stays: ["block-outside-pools", "block-outside-pools"],
  },
  {
    title: "an empty block of another size than its pool's",
    damage: ({ datastore }) => ownBlock(datastore, "10.40.0.240/28", 16),
    finds: [/^block-size block 10\.40\.0\.240\/28: is a \/28, blocks of pool pool \(10\.40\.0\.0\/24\) are \/29$/],
  },
  {
    title: "a pool whose block size was changed while its blocks have addresses",
    damage: ({ datastore }) => change(datastore.pools, "pool", { blockSize: 26 }),
    finds: [
      /^pool-block-size pool pool \(10\.40\.0\.0\/24\): blockSize is 26, but 2 of 2 blocks have another: 2 of \/29; they go on serving, and no new block is made over them$/,
    ],
    stays: ["pool-block-size"],
  },
  {
    title: "an empty block that overlaps with one in use",
    damage: ({ datastore, cidr }) => ownBlock(datastore, cidr.replace("/29", "/30"), 4),
    finds: [
      /^block-size block .*\/30: /,
      /^blocks-overlap block .*\/30: overlaps with block 10\.40\.0\.\d+\/29: an address could be given twice$/,
    ],
  },
  {
    title: "an empty block of nobody",
    damage: ({ datastore }) => datastore.blocks.create("10.40.0.248/29", emptyBlock("10.40.0.248/29", 8)),
    finds: [/^block-abandoned block 10\.40\.0\.248\/29: has neither owner nor addresses$/],
  },
  {
    title: "G9: a block of nobody whose last address has cooled down, as nobody has written since",
    damage: ({ datastore }) => coolingBlock(datastore, "10.40.0.248/29", "2026-11-21T09:58:00Z"),
    finds: [/^block-abandoned block 10\.40\.0\.248\/29: has neither owner nor addresses$/],
  },
  {
    title: "an affinity whose block is not there",
    damage: ({ datastore }) => affinity(datastore, "worker-2", "10.40.0.248/29", "confirmed"),
    finds: [/^affinity-without-block affinity of host worker-2 for block 10\.40\.0\.248\/29: the block does not exist$/],
  },
  {
    title: "a claim that was never finished, before its block",
    damage: ({ datastore }) => affinity(datastore, "worker-2", "10.40.0.248/29", "pending"),
    finds: [/^affinity-unfinished affinity of host worker-2 .*: a claim was not finished \(pending, its block is not there\)$/],
  },
  {
    title: "a claim that was never finished, after its block",
    damage: ({ datastore, cidr }) => change(datastore.affinities, { owner: WORKER_1, cidr }, { state: "pending" }),
    finds: [/^affinity-unfinished affinity of host worker-1 .*: a claim was not finished \(pending, its block is there\)$/],
  },
  {
    title: "a release that was never finished",
    damage: ({ datastore, cidr }) => change(datastore.affinities, { owner: WORKER_1, cidr }, { state: "pendingDeletion" }),
    finds: [/^affinity-unfinished affinity of host worker-1 .*: a release was not finished \(pendingDeletion, its block is there\)$/],
  },
  {
    title: "a block whose owner has no affinity",
    damage: ({ datastore, cidr }) => remove(datastore.affinities, { owner: WORKER_1, cidr }),
    finds: [/^affinity-missing block .*: belongs to host worker-1, who has no affinity for it$/],
  },
  {
    title: "an affinity of another owner than the block's",
    damage: ({ datastore, cidr }) => affinity(datastore, "worker-2", cidr, "pendingDeletion"),
    finds: [/^affinity-of-another affinity of host worker-2 .*: the block belongs to host worker-1$/],
  },
  {
    title: "an affinity of a block that belongs to nobody",
    damage: (world) => world.damage(() => ({ affinity: undefined, affinityClaimTime: undefined })),
    finds: [/^affinity-of-another affinity of host worker-1 .*: the block belongs to nobody$/],
  },
  {
    title: "a block that is confirmed for two owners",
    damage: ({ datastore, cidr }) => affinity(datastore, "worker-2", cidr, "confirmed"),
    finds: [/^affinity-double block .*: is confirmed for host worker-1, host worker-2 at once$/],
  },
  {
    title: "an affinity without its labels",
    damage: ({ datastore, cidr }) => change(datastore.affinities, { owner: WORKER_1, cidr }, { labelled: false }),
    finds: [/^affinity-unlabelled affinity of host worker-1 .*: the labels that look-ups go by are missing or wrong$/],
  },
  {
    title: "a handle that no block names",
    damage: ({ datastore, cidr }) => datastore.handles.create("net.gone", { id: "net.gone", blocks: { [cidr]: 1 } }),
    finds: [/^handle-orphan handle net\.gone: no block has an address of it \(it counts 1 in 10\.40\.0\.\d+\/29\)$/],
  },
  {
    title: "a handle of a block that is gone",
    damage: ({ datastore }) => datastore.handles.create("net.gone", { id: "net.gone", blocks: { "10.40.0.248/29": 2 } }),
    finds: [/^handle-orphan handle net\.gone: /],
  },
  {
    title: "a handle that counts nothing at all",
    damage: ({ datastore }) => datastore.handles.create("net.gone", { id: "net.gone", blocks: {} }),
    finds: [/^handle-orphan handle net\.gone: no block has an address of it$/],
  },
  {
    title: "a handle that counts zero",
    damage: ({ datastore, cidr }) => datastore.handles.create("net.gone", { id: "net.gone", blocks: { [cidr]: 0 } }),
    finds: [/^handle-orphan handle net\.gone: /],
  },
  {
    title: "an address whose handle does not exist",
    damage: ({ datastore }) => remove(datastore.handles, "net.c1"),
    finds: [/^handle-missing handle net\.c1: 1 address recorded for it in 10\.40\.0\.\d+\/29, but there is no such handle/],
  },
  {
    title: "a handle that counts more than its block records",
    damage: (world) => recount(world, { [world.cidr]: 3 }),
    finds: [/^handle-count-high handle net\.c1 in block .*: it counts 3 addresses, the block records 1$/],
  },
  {
    title: "a handle that counts a block it has nothing in",
    damage: (world) => recount(world, { [world.cidr]: 1, "10.40.0.248/29": 1 }),
    finds: [/^handle-count-high handle net\.c1 in block 10\.40\.0\.248\/29: it counts 1 address, the block records 0$/],
  },
  {
    title: "a handle that counts less than its block records",
    damage: (world) => recount(world, { "10.40.0.248/29": 1 }),
    finds: [
      /^handle-count-high handle net\.c1 in block 10\.40\.0\.248\/29: /,
      /^handle-count-low handle net\.c1 in block .*: it counts 0 addresses, the block records 1$/,
    ],
  },
  {
    title: "an allocated address that no endpoint uses",
    damage: ({ datastore }) => allocate(datastore, "leaked", "worker-1"),
    finds: [/^address-unused address .*: is allocated to handle net\.leaked on node worker-1, but no endpoint uses it$/],
  },
  {
    title: "an address that an endpoint uses and nobody holds",
    damage: (world) => freeAddress(world, "c1"),
    finds: [
      /^address-not-allocated address .* of endpoint default\/worker-1-cni-c1-eth0: is not allocated: it could be given to another workload$/,
    ],
  },
  {
    title: "an address that an endpoint uses while it cools down",
    damage: async (world) => {
      await freeAddress(world, "c1");
      await occupy(world, 0, { releasedAt: "2026-11-21T09:59:59Z" });
    },
    finds: [/^address-not-allocated address .* of endpoint default\/worker-1-cni-c1-eth0: /],
  },
  {
    title: "an address in use whose block was never made",
    damage: ({ datastore }) => endpointWith(datastore, "c9", "10.40.0.250"),
    finds: [/^address-not-allocated address 10\.40\.0\.250 of endpoint default\/worker-1-cni-c9-eth0: /],
  },
  {
    title: "an address in use that is allocated without a handle",
    damage: async (world) => {
      await freeAddress(world, "c1");
      await occupy(world, 0, {});
    },
    finds: [/^address-without-handle address .* of endpoint default\/worker-1-cni-c1-eth0: is allocated without a handle/],
  },
  {
    title: "an address in use outside of all pools",
    damage: ({ datastore }) => endpointWith(datastore, "c9", "192.0.2.9"),
    finds: [/^address-outside-pools address 192\.0\.2\.9 of endpoint default\/worker-1-cni-c9-eth0: lies in no pool$/],
    stays: ["address-outside-pools"],
  },
  {
    title: "an address in use that is another's",
    damage: async (world) => {
      await remove(world.datastore.endpoints, { namespace: "default", name: "worker-1-cni-c1-eth0" });
      await endpointWith(world.datastore, "thief", world.addresses[0] ?? "");
    },
    finds: [
      /^address-of-another address .* of endpoint default\/worker-1-cni-thief-eth0: is allocated to handle net\.c1, another workload$/,
    ],
    stays: ["address-of-another"],
  },
  {
    title: "an address that two endpoints use",
    damage: ({ datastore, addresses }) => endpointWith(datastore, "c1", addresses[0] ?? "", "net1"),
    finds: [/^address-used-twice address .*: is used by 2 endpoints: default\/worker-1-cni-c1-eth0, default\/worker-1-cni-c1-net1$/],
    stays: ["address-used-twice"],
  },
];

const world = fresh(() => createWorld());

describe("the check of a store", () => {
  it("finds nothing in what ADDs leave", async () => {
    expect(await world.find()).toEqual([]);
  });

  it.each(CASES.map((one) => [one.title, one] as const))("names %s, and the repair mends what can be mended", async (_title, one) => {
    await one.damage(world);

    const found = await world.find();
    const texts = found.map(({ kind, object, message }) => `${kind} ${object}: ${message}`);
    expect(texts).toEqual(one.finds.map((pattern) => expect.stringMatching(pattern)));

    const { left } = await world.mend();
    expect(left.map(({ kind }) => kind)).toEqual(one.stays ?? []);
  });

  it.each(CASES.map((one) => [one.title, one] as const))(
    "leaves every address in use where it is while it mends %s",
    async (_title, one) => {
      await one.damage(world);
      const before = await usedAndAllocated();

      await world.mend();

      expect(await usedAndAllocated()).toEqual(expect.arrayContaining(before));
    },
  );

  it("writes nothing by itself", async () => {
    for (const one of CASES) {
      const calls: string[] = [];
      const world = await createWorld((call) => {
        calls.push(call.operation);
        return "proceed";
      });
      await one.damage(world);
      await world.find();
      expect(new Set(calls)).toEqual(new Set(["list", "get"]));
    }
  });
});

describe("a block of nobody", () => {
  it("G9: stays while one of its addresses cools down", async () => {
    await coolingBlock(world.datastore, "10.40.0.248/29", "2026-11-21T09:59:10Z");

    expect(await world.find()).toEqual([]);
  });
});

describe("addresses without an endpoint", () => {
  it("are only a note while their ADD may be under way", async () => {
    const address = await allocate(world.datastore, "young", "worker-1", "2026-11-21 09:59:30 +0000 UTC");

    expect(await world.find()).toMatchObject([{ kind: "address-unused", severity: "note", isRepairable: false, addresses: [address] }]);
    expect(await world.find({ graceMs: 10_000 })).toMatchObject([{ kind: "address-unused", severity: "problem" }]);
  });

  it("are one note for a node that records no endpoint at all, unless the check is strict", async () => {
    await allocate(world.datastore, "other1", "worker-3");
    await allocate(world.datastore, "other2", "worker-3");

    expect(await world.find()).toMatchObject([
      { kind: "addresses-unjudged", severity: "note", object: "network net on node worker-3", addresses: { length: 2 } },
    ]);
    expect(await world.find({ isStrict: true })).toMatchObject([{ kind: "address-unused" }, { kind: "address-unused" }]);
  });

  it("are never released when another main plugin took them, though ours serves a network on the same node", async () => {
    const address = await allocate(world.datastore, "c8", "worker-1");
    await world.damage((block) => ({
      attributes: block.attributes.map((one) => (one.handleId === "net.c8" ? { ...one, handleId: "bridged.c8" } : one)),
    }));

    const { left } = await world.mend({ graceMs: 0 });

    expect(left).toMatchObject([{ kind: "addresses-unjudged", object: "network bridged on node worker-1", addresses: [address] }]);
    expect(await holderOf(world.datastore, address)).toBe("bridged.c8");
  });

  it.each([
    ["a tunnel", { node: "worker-1", type: "vxlanTunnelAddress" }],
    ["a virtual machine", { node: "worker-1", "vmi-name": "vm" }],
  ])("are right when they belong to %s", async (_what, activeOwner) => {
    await allocate(world.datastore, "special", "worker-1");
    await world.damage((block) => ({
      attributes: block.attributes.map((attribute) => (attribute.handleId === "net.special" ? { ...attribute, activeOwner } : attribute)),
    }));

    expect(await world.find()).toEqual([]);
  });

  it("are right when Windows reserves them", async () => {
    await occupy(world, 7, { handleId: "windows-reserved-ipam-handle", activeOwner: { note: "windows host rsvd" } });

    expect(await world.find()).toEqual([]);
  });
});

describe("addresses from elsewhere", () => {
  it("are no problem of a family that no pool serves", async () => {
    await endpointWith(world.datastore, "c9", "fd00::9");

    expect(await world.find()).toEqual([]);
  });
});

describe("the check of a large store", () => {
  it("ends for 65536 addresses, as it would not if each were compared with each", () => {
    const endpoints: Versioned<WorkloadEndpoint>[] = [];
    const blocks: Versioned<Block>[] = [];
    const handles: Versioned<Handle>[] = [];
    for (let b = 0; b < 1024; b++) {
      const first = b * 64;
      const cidr = `10.244.${first >> 8}.${first & 255}/26`;
      const ids = Array.from({ length: 64 }, (_, ordinal) => `id${first + ordinal}`);
      const attributes = ids.map((id) => ({ handleId: `net.${id}`, activeOwner: { node: "n" } }));
      const block = emptyBlock(cidr, 64, { allocations: ids.map((_, ordinal) => ordinal), unallocated: [], attributes });
      blocks.push({ value: { ...block, affinity: { type: "host" as const, name: "n" } }, revision: "1" });
      ids.forEach((id, ordinal) => {
        const address = `10.244.${(first + ordinal) >> 8}.${(first + ordinal) & 255}/32`;
        handles.push({ value: { id: `net.${id}`, blocks: { [cidr]: 1 } }, revision: "1" });
        endpoints.push({
          value: sampleEndpoint("default", id, { node: "n", pod: "", containerID: id, ipNetworks: [address] }),
          revision: "1",
        });
      });
    }
    const affinities = blocks.map(({ value }) => ({ value: sampleAffinity("n", value.cidr), revision: "1" }));
    const snapshot = { pools: [samplePool("pool", "10.244.0.0/16")], blocks, affinities, handles, endpoints, cooldownSeconds: 0 };

    expect(findInconsistencies(snapshot, { ...SETTINGS, nowMs: NOW })).toEqual([]);
  });
});

type Store = World["datastore"];

async function ownBlock(datastore: Store, cidr: string, size: number): Promise<void> {
  await datastore.blocks.create(cidr, emptyBlock(cidr, size, { affinity: WORKER_2 }));
  await affinity(datastore, "worker-2", cidr, "confirmed");
}

/** A block without owner, its first address released at that time, in a store where released addresses wait a minute. */
async function coolingBlock(datastore: Store, cidr: string, releasedAt: string): Promise<void> {
  await datastore.ipamConfiguration.create("default", { ...DEFAULT_CONFIGURATION, ipCooldownSeconds: 60 });
  await datastore.blocks.create(cidr, heldBlock(cidr, [{ releasedAt }]));
}

function affinity(datastore: Store, node: string, cidr: string, state: "pending" | "confirmed" | "pendingDeletion") {
  const value = sampleAffinity(node, cidr, { state });
  return datastore.affinities.create(value, value);
}

function recount({ datastore }: World, blocks: Readonly<Record<string, number>>) {
  return change(datastore.handles, "net.c1", { blocks });
}

/** Takes the first address of worker-1's block away from a container, handle and all. */
async function freeAddress(world: World, container: string): Promise<void> {
  await world.damage((block) => ({
    allocations: block.allocations.map((index) => (index === null || index === 0 ? null : index - 1)),
    unallocated: [...block.unallocated, 0],
    attributes: block.attributes.slice(1),
  }));
  await remove(world.datastore.handles, `net.${container}`);
}

function endpointWith(datastore: Store, container: string, address: string, ifname = "eth0") {
  const name = `worker-1-cni-${container}-${ifname}`;
  const value = sampleEndpoint("default", name, {
    node: "worker-1",
    containerID: container,
    pod: "",
    endpoint: ifname,
    profiles: ["net"],
    ipNetworks: [`${address}${address.includes(":") ? "/128" : "/32"}`],
  });
  return datastore.endpoints.create({ namespace: "default", name }, value);
}

/** `address handle` of everything that is both used by an endpoint and recorded by a block. */
async function usedAndAllocated(): Promise<readonly string[]> {
  const { datastore } = world;
  const { endpoints } = await readSnapshot(datastore);
  const found: string[] = [];
  for (const { value } of endpoints) {
    for (const network of value.ipNetworks.filter((text) => text.startsWith("10.40."))) {
      const address = network.replace("/32", "");
      const holder = await holderOf(datastore, address);
      if (holder !== undefined) found.push(`${address} ${holder}`);
    }
  }
  return found;
}
