/** What interrupted operations leave in the data: mended when it has been the same for the grace period. */
import { giveUpBlocks } from "../../../support/blocks.ts";
import { ControllerWorld } from "../../../support/controller-world.ts";
import { fresh } from "../../../support/fixtures.ts";
import { emptyBlock } from "../../../support/samples.ts";
import { change, wanted } from "../../../support/stored.ts";

async function withOrphan(given: Readonly<Record<string, string>> = {}): Promise<ControllerWorld> {
  const world = ControllerWorld.withPool(given);
  await world.datastore.handles.create("net1.orphan", { id: "net1.orphan", blocks: { "10.60.0.0/29": 1 } });
  return world;
}

describe("A handle that no block knows", () => {
  const world = fresh(withOrphan);

  it("is removed after five minutes, and told", async () => {
    await world.addPodWithAddress("web");
    await world.minutes(5);
    expect((await world.datastore.handles.list()).map(({ value }) => value.id)).toEqual(["net1.orphan", "net1.web-c"]);
    await world.minutes(1);
    expect((await world.datastore.handles.list()).map(({ value }) => value.id)).toEqual(["net1.web-c"]);
    expect(world.log).toEqual([expect.stringMatching(/^mended .*net1\.orphan.*handle-orphan/)]);
  });

  it("that is written meanwhile is another observation", async () => {
    await world.minutes(5);
    await change(world.datastore.handles, "net1.orphan", { blocks: { "10.60.0.8/29": 1 } });
    await world.minutes(5);
    expect(await world.datastore.handles.list()).toHaveLength(1);
    await world.minutes(1);
    expect(await world.datastore.handles.list()).toEqual([]);
  });

  it.each<[string, Readonly<Record<string, string>>, (world: ControllerWorld) => void]>([
    ["while the datastore is paused", {}, (world) => world.setReady(false)],
    ["where Calico's kube-controllers runs", { "calico-kube-controllers": "present" }, () => {}],
  ])("stays %s", async (_when, options, arrange) => {
    const world = await withOrphan(options);
    arrange(world);
    await world.minutes(20);
    expect(await world.datastore.handles.list()).toHaveLength(1);
    expect(world.context.observed.problem.size).toBe(0);
  });

  it("is no matter of an item that is not confirmed, or not allowed any more", async () => {
    await world.minutes(5);
    await world.clock.advance(60_000);
    const [item = ""] = await world.due("leftovers");
    expect(item).toContain("net1.orphan");
    world.setReady(false);
    await world.work(`leftovers ${item}`);
    world.setReady(true);
    for (const seen of Object.values(world.context.observed)) seen.forget();
    await world.work(`leftovers ${item}`);
    expect(await world.datastore.handles.list()).toHaveLength(1);
  });

  it("is not judged while the lists are not complete", async () => {
    world.api.followedSince = undefined;
    await expect(world.work("leftovers problem x")).rejects.toThrow("are not complete");
    world.api.followedSince = 0;
    // Whether the datastore is ready is a question of its own, in which time passes.
    world.api.before = ({ path }) => {
      if (path.includes("/clusterinformations/")) world.api.followedSince = undefined;
    };
    await expect(world.work("leftovers problem x")).rejects.toThrow("are not complete");
  });

  it("that counts too much is counted anew", async () => {
    await world.addPodWithAddress("web");
    const { value } = await wanted(world.datastore.handles.get("net1.web-c"));
    const [cidr = ""] = Object.keys(value.blocks);
    await change(world.datastore.handles, "net1.web-c", { blocks: { [cidr]: 3 } });
    await world.minutes(6);
    expect((await world.datastore.handles.get("net1.web-c"))?.value.blocks).toEqual({ [cidr]: 1 });
  });
});

describe("A block of nobody", () => {
  it("that has no address goes, also when its last one has cooled down; one with an address stays", async () => {
    const world = ControllerWorld.withPool();
    world.api.put("/apis/crd.projectcalico.org/v1/ipamconfigs/default", { spec: { autoAllocateBlocks: true, ipCooldownSeconds: 120 } });
    await world.addPodWithAddress("web");
    await world.take("node2", "short");
    for (const name of ["node1", "node2"]) await giveUpBlocks(world.allocator, { type: "host", name }, { mustBeEmpty: false });
    await world.allocator.releaseByHandle("net1.short-c");
    const empty = emptyBlock("10.60.0.240/29", 8);
    await world.datastore.blocks.create(empty.cidr, empty);
    await world.minutes(6);
    expect(await world.blocks()).toHaveLength(2);
    expect(await world.blocks()).not.toContain(`nobody ${empty.cidr}`);
    await world.minutes(4);
    expect(await world.blocks()).toHaveLength(1);
    expect(Object.keys(await world.held())).toEqual(["net1.web-c"]);
  });
});
