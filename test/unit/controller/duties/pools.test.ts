/** Pools on an API server in memory: their finalizer, their deletion, and the condition that says how full they are. */

import { ApiError } from "../../../../lib/kubernetes/api-client.ts";
import { giveUpBlocks } from "../../../support/blocks.ts";
import { ControllerWorld } from "../../../support/controller-world.ts";
import { emptyBlock, heldBlock } from "../../../support/samples.ts";
import { change } from "../../../support/stored.ts";

const FINALIZER = "tortie.dev/pool-addresses";
const OTHERS = "example.org/theirs";
const CONDITION = "tortie.dev/AddressesAvailable";

const PATCHES = "PATCH /apis/crd.projectcalico.org/v1/ippools/";

function patchesOf(world: ControllerWorld): number {
  return world.api.writes.filter((write) => write.startsWith(PATCHES)).length;
}

describe("A pool", () => {
  it("gets the finalizer beside those of others, then the condition beside those of others, and no more writes", async () => {
    const world = new ControllerWorld();
    const conditions = [{ type: "example.org/Theirs", status: "True" }];
    world.api.put("/apis/crd.projectcalico.org/v1/ippools/pool", {
      metadata: { finalizers: [OTHERS] },
      spec: { cidr: "10.60.0.0/30", blockSize: 30 },
      status: { conditions },
    });
    await world.minutes(1);
    expect(world.pool("pool")).toMatchObject({ metadata: { finalizers: [OTHERS, FINALIZER] } });
    await world.minutes(1);
    const available = { type: CONDITION, status: "True", reason: "Available", lastTransitionTime: "2030-01-01T00:02:00.000Z" };
    expect(world.pool("pool")).toMatchObject({ status: { conditions: [...conditions, available] } });
    await world.minutes(3);
    expect(patchesOf(world)).toBe(2);
    for (const pod of ["a", "b", "c", "d"]) await world.take("node1", pod);
    await world.minutes(1);
    const full = { status: "False", reason: "Full", lastTransitionTime: "2030-01-01T00:06:00.000Z" };
    expect(world.pool("pool")).toMatchObject({ status: { conditions: [...conditions, full] } });
  });

  it("loses the finalizer, and no other's, where the option says so", async () => {
    const world = new ControllerWorld({ "pool-finalizer": "false" });
    world.addPool("pool", "10.60.0.0/24", { metadata: { finalizers: [OTHERS, FINALIZER] } });
    await world.minutes(3);
    expect(world.pool("pool")).toMatchObject({ metadata: { finalizers: [OTHERS] } });
  });

  it.each([404, 409])("that was changed meanwhile (%i) is left for the next look", async (status) => {
    const world = ControllerWorld.withPool();
    world.api.before = ({ method }) => {
      if (method === "PATCH") throw new ApiError("arranged", { status });
    };
    await world.minutes(1);
    world.api.before = () => undefined;
    await world.minutes(1);
    expect(world.pool("pool")).toMatchObject({ metadata: { finalizers: [FINALIZER] } });
  });

  it("that may not be written is an error", async () => {
    const world = ControllerWorld.withPool();
    world.api.before = ({ method }) => {
      if (method === "PATCH") throw new ApiError("forbidden by the test", { status: 403 });
    };
    await expect(world.minutes(1)).rejects.toThrow("forbidden by the test");
  });
});

describe("A pool that is deleted", () => {
  async function deleted(arrange: (world: ControllerWorld) => Promise<unknown>): Promise<ControllerWorld> {
    const world = ControllerWorld.withPool();
    await world.minutes(1);
    await arrange(world);
    await world.deletePool("pool");
    expect(world.pool("pool")).toBeDefined();
    return world;
  }

  it("stays while an address is in use, and goes with its blocks when none is", async () => {
    const world = await deleted(async (it) => {
      await it.addPodWithAddress("web");
      await it.take("node2", "short");
      await it.allocator.releaseByHandle("net1.short-c");
    });
    await world.minutes(5);
    expect(world.pool("pool")).toBeDefined();
    expect(await world.blocks()).toHaveLength(2);
    await world.allocator.releaseByHandle("net1.web-c");
    await world.minutes(1);
    expect(world.pool("pool")).toBeUndefined();
    expect(await world.blocks()).toEqual([]);
    expect(await world.datastore.affinities.listAll()).toEqual([]);
    expect(world.log).toContain("pool pool is free of addresses: its deletion may go on");
  });

  it("goes when its last address has cooled down, with the block of nobody that it is in", async () => {
    const world = await deleted(async (it) => {
      it.api.put("/apis/crd.projectcalico.org/v1/ipamconfigs/default", { spec: { autoAllocateBlocks: true, ipCooldownSeconds: 300 } });
      await it.take("node1", "short");
      await giveUpBlocks(it.allocator, { type: "host", name: "node1" }, { mustBeEmpty: false });
      await it.allocator.releaseByHandle("net1.short-c");
    });
    await world.minutes(3);
    expect(await world.blocks()).toEqual([expect.stringMatching(/^nobody /)]);
    await world.minutes(4);
    expect([world.pool("pool"), await world.blocks()]).toEqual([undefined, []]);
  });

  it("leaves the addresses to a pool of the same range that was made under another name", async () => {
    const world = await deleted((it) => it.addPodWithAddress("web"));
    world.addPool("other", "10.60.0.0/16");
    await world.minutes(2);
    expect(world.pool("pool")).toBeDefined();
    world.addPool("again", "10.60.0.0/24");
    await world.minutes(2);
    expect(world.pool("pool")).toBeUndefined();
    expect(Object.keys(await world.held())).toEqual(["net1.web-c"]);
    expect(await world.blocks()).toHaveLength(1);
  });

  it("leaves the blocks of other pools alone", async () => {
    const world = await deleted(async (it) => it.addPool("far", "10.70.0.0/24"));
    const block = emptyBlock("10.70.0.0/29", 8, { affinity: { type: "host", name: "node1" } });
    await world.datastore.blocks.create(block.cidr, block);
    await world.minutes(2);
    expect(world.pool("pool")).toBeUndefined();
    expect(await world.blocks()).toEqual(["node1 10.70.0.0/29"]);
  });

  it("stays while a block cannot be read that may hold addresses of it", async () => {
    const path = "/apis/crd.projectcalico.org/v1/ipamblocks/10-60-0-0-29";
    const world = await deleted(async () => {});
    world.api.put(path, { spec: {} });
    await expect(world.work("pools pool pool")).rejects.toThrow("pool pool is kept: a block that cannot be read may hold addresses of it");
    expect(world.pool("pool")).toBeDefined();
    world.api.remove(path);
    await world.minutes(1);
    expect(world.pool("pool")).toBeUndefined();
  });

  it("stays when a block is claimed between the release of its blocks and the last look", async () => {
    const world = await deleted(async (it) => {
      await it.take("node1", "short");
      await it.allocator.releaseByHandle("net1.short-c");
    });
    const block = emptyBlock("10.60.0.0/29", 8, { affinity: { type: "host", name: "node9" } });
    let isDone = false;
    world.api.before = async ({ method, path }) => {
      if (isDone || method !== "DELETE" || !path.includes("/blockaffinities/")) return;
      isDone = true;
      await world.datastore.blocks.create(block.cidr, block);
    };
    await world.minutes(1);
    expect(isDone).toBe(true);
    expect(world.pool("pool")).toBeDefined();
    expect(await world.blocks()).toEqual(["node9 10.60.0.0/29"]);
  });

  it("is tried again when an address is given out of one of its blocks at the last moment", async () => {
    const world = await deleted(async (it) => {
      await it.take("node1", "short");
      await it.allocator.releaseByHandle("net1.short-c");
    });
    world.api.before = async ({ method, path }) => {
      if (method !== "GET" || !path.includes("/blockaffinities?")) return;
      world.api.before = () => undefined;
      const attributes = [{ handleId: "net1.late", activeOwner: { node: "node1" } }];
      for (const { value, revision } of await world.datastore.blocks.list()) {
        const { allocations, unallocated } = heldBlock(value.cidr, attributes);
        await world.datastore.blocks.update(value.cidr, { ...value, allocations, attributes, unallocated }, revision);
      }
    };
    await expect(world.work("pools pool pool")).rejects.toMatchObject({ word: "block-not-empty" });
    expect(world.pool("pool")).toBeDefined();
  });

  it("is left for the next look when one of its blocks is written at the last moment, and passed over when it is gone", async () => {
    const world = await deleted(async (it) => {
      const block = emptyBlock("10.60.0.0/29", 8);
      await it.datastore.blocks.create(block.cidr, block);
    });
    let tries = 0;
    world.api.before = async ({ method, path }) => {
      if (method !== "DELETE" || !path.includes("/ipamblocks/")) return;
      tries++;
      if (tries === 1) await change(world.datastore.blocks, "10.60.0.0/29", { sequenceNumber: 7n });
      else world.api.remove(path);
    };
    await world.minutes(1);
    expect(world.pool("pool")).toBeDefined();
    await world.minutes(1);
    expect([tries, world.pool("pool")]).toEqual([2, undefined]);
  });
});
