import { repair, standing } from "../../../doctor/check.ts";
import type { Problem } from "../../../doctor/problem.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { fresh } from "../../support/fixtures.ts";
import type { Call, Fate } from "../../support/memory-datastore.ts";
import { sampleAffinity } from "../../support/samples.ts";
import { change, remove, wanted } from "../../support/stored.ts";
import { addContainer, allocate, createWorld, holderOf, NOW, occupy, type World } from "./world.ts";

const clock = { nowMs: () => NOW, nowNs: () => BigInt(NOW) * 1_000_000n };

const world = fresh(() => createWorld());

async function theProblem(kind: Problem["kind"]): Promise<Problem> {
  const found = (await world.find()).find((problem) => problem.kind === kind);
  if (found === undefined) throw new Error(`no ${kind}`);
  return found;
}

async function endpointOfC1(): Promise<WorkloadEndpoint> {
  return (await wanted(world.datastore.endpoints.get({ namespace: "default", name: "worker-1-cni-c1-eth0" }))).value;
}

function repairNow(problem: Problem) {
  return repair(problem, { datastore: world.datastore, clock });
}

/** Every object with its revision. */
async function everything() {
  const { pools, blocks, affinities, handles, endpoints } = world.datastore;
  return [await pools.list(), await blocks.list(), await affinities.listAll(), await handles.list(), await endpoints.list()];
}

describe("repair of an address that nobody uses", () => {
  it("releases it and takes the handle along", async () => {
    const address = await allocate(world.datastore, "leaked", "worker-1");

    const { repaired, left } = await world.mend();

    expect(repaired).toMatchObject([{ problem: { kind: "address-unused" }, outcome: { outcome: "mended" } }]);
    expect(left).toEqual([]);
    expect(await holderOf(world.datastore, address)).toBeUndefined();
    expect(await world.datastore.handles.get("net.leaked")).toBeUndefined();
  });

  it("keeps it when an endpoint has come to use it since the check", async () => {
    const address = await allocate(world.datastore, "late", "worker-1");
    const problem = await theProblem("address-unused");
    const endpoint = await endpointOfC1();
    const late = { ...endpoint, name: "worker-1-cni-late-eth0", containerID: "late", ipNetworks: [`${address}/32`] };
    await world.datastore.endpoints.create(late, late);

    expect(await repairNow(problem)).toEqual({ outcome: "gone" });
    expect(await holderOf(world.datastore, address)).toBe("net.late");
  });

  it("keeps it when it was released and given to another container since the check", async () => {
    const address = await allocate(world.datastore, "leaked", "worker-1");
    const problem = await theProblem("address-unused");
    await repairNow(problem);
    let other = "";
    for (let container = 0; other !== address; container++) other = await addContainer(world.datastore, `new${container}`, "worker-1");

    expect(await repairNow(problem)).toEqual({ outcome: "gone" });
    expect(await holderOf(world.datastore, address)).toMatch(/^net\.new/);
  });

  it("refuses while the ADD that took it may still be running, however short the grace", async () => {
    const address = await allocate(world.datastore, "young", "worker-1", "2026-11-21 09:58:00 +0000 UTC");

    const { repaired, left } = await world.mend({ graceMs: 0 });

    expect(repaired).toMatchObject([{ outcome: { outcome: "refused", reason: expect.stringContaining("its ADD may be under way") } }]);
    expect(left).toMatchObject([{ kind: "address-unused" }]);
    expect(await holderOf(world.datastore, address)).toBe("net.young");
  });
});

describe("repair under compare-and-swap", () => {
  const damages: readonly (readonly [string, (world: World) => Promise<unknown>])[] = [
    ["a block", (world) => world.damage((block) => ({ unallocated: block.unallocated.slice(1) }))],
    ["a handle", ({ datastore, cidr }) => datastore.handles.create("net.gone", { id: "net.gone", blocks: { [cidr]: 1 } })],
    [
      "an affinity",
      ({ datastore }) => {
        const stale = sampleAffinity("worker-9", "10.40.0.248/29");
        return datastore.affinities.create(stale, stale);
      },
    ],
    ["an allocation", ({ datastore }) => allocate(datastore, "leaked", "worker-1")],
  ];

  it.each(damages)("of %s is tried again when every first write conflicts", async (_what, damage) => {
    const refused = new Set<string>();
    const world = await createWorld((call: Call): Fate => {
      const name = `${call.operation} ${call.kind} ${call.key}`;
      if (call.operation === "get" || call.operation === "list" || refused.has(name)) return "proceed";
      refused.add(name);
      return "conflict";
    });
    await damage(world);

    expect((await world.mend()).left).toEqual([]);
    expect(refused.size).toBeGreaterThan(0);
  });

  it.each(damages)("of %s changes nothing when the damage was mended since the check", async (_what, damage) => {
    await damage(world);
    const [problem] = await world.find();
    if (problem === undefined) throw new Error("nothing found");
    await world.mend();
    const before = await everything();

    expect(await repairNow(problem)).toEqual({ outcome: "gone" });
    expect(await everything()).toEqual(before);
  });

  it("writes nothing for what must be decided by hand", async () => {
    const endpoint = await endpointOfC1();
    const second = { ...endpoint, name: "worker-1-cni-c1-net1" };
    await world.datastore.endpoints.create(second, second);
    const problem = await theProblem("address-used-twice");
    const before = await everything();

    expect(await repairNow(problem)).toMatchObject({ outcome: "refused" });
    expect(await everything()).toEqual(before);
  });

  it("gives a DEL the handle that finds the address which was allocated to its endpoint", async () => {
    const endpoint = await endpointOfC1();
    const own = { ...endpoint, containerID: "c9", name: "worker-1-cni-c9-eth0", ipNetworks: ["10.40.0.250/32"] };
    const pod = {
      ...own,
      name: "worker-1-k8s-web-eth0",
      pod: "web",
      profiles: ["kns.shop"],
      namespace: "shop",
      ipNetworks: ["10.40.0.251/32"],
    };
    await world.datastore.endpoints.create(own, own);
    await world.datastore.endpoints.create(pod, pod);

    expect((await world.mend()).left).toEqual([]);
    expect(await holderOf(world.datastore, "10.40.0.250")).toBe("net.c9");
    expect(await holderOf(world.datastore, "10.40.0.251")).toBe("shop.web");
  });
});

describe("S17: repair of an address that only a pod's annotations name", () => {
  it.each([
    ["is free", undefined],
    ["is allocated without a handle", {}],
  ])("allocates nothing while it %s, and does when the status has it", async (_, attribute) => {
    const { endpoints } = world.datastore;
    const endpoint = await endpointOfC1();
    const ordinal = 5;
    const address = world.cidr.replace(/(\d+)\/29$/, (_whole, first) => String(Number(first) + ordinal));
    if (attribute !== undefined) await occupy(world, ordinal, attribute);
    const of = { namespace: "tenant", name: "worker-1-k8s-greedy-eth0" };
    const greedy = { ...endpoint, ...of, pod: "greedy", containerID: "g", ipNetworks: [`${address}/32`] };
    const claimed = await endpoints.create(of, { ...greedy, isClaimed: true });
    const before = await everything();

    const { repaired, left } = await world.mend();

    expect(repaired).toMatchObject([{ outcome: { outcome: "refused", reason: expect.stringContaining("only annotations of the pod") } }]);
    expect(left).toMatchObject([{ addresses: [address] }]);
    expect(await everything()).toEqual(before);

    await endpoints.update(of, greedy, claimed.revision);
    expect((await world.mend()).left).toEqual([]);
    expect(await holderOf(world.datastore, address)).toBe("net.g");
  });
});

describe("a second look", () => {
  it("lets go of what was under way: a handle is counted before its block is written", async () => {
    await world.datastore.handles.create("net.c7", { id: "net.c7", blocks: { [world.cidr]: 1 } });
    let looks = 0;
    const found = await world.find({
      pause: async () => {
        looks++;
        await remove(world.datastore.handles, "net.c7");
      },
    });

    expect({ found, looks }).toEqual({ found: [], looks: 1 });
  });

  it("does not count as standing what has been written in between", async () => {
    await world.datastore.handles.create("net.c7", { id: "net.c7", blocks: { [world.cidr]: 1 } });
    const first = await world.find();
    await change(world.datastore.handles, "net.c7", {});
    const second = await world.find();

    expect(first).toHaveLength(1);
    expect(second).toHaveLength(1);
    expect(standing(first, second)).toEqual([]);
    expect(standing(second, second)).toEqual(second);
  });

  it("is not needed when nothing is wrong", async () => {
    let looks = 0;
    await world.find({ pause: async () => void looks++ });
    expect(looks).toBe(0);
  });
});

describe("repair of a block with two affinities", () => {
  it("removes the confirmed one of whoever does not own the block, and not a claim that is under way", async () => {
    const { affinities } = world.datastore;
    const foreign = sampleAffinity("worker-8", world.cidr);
    const pending = sampleAffinity("worker-9", world.cidr, { state: "pending" });
    for (const affinity of [foreign, pending]) await affinities.create(affinity, affinity);
    const problem = await theProblem("affinity-double");

    expect(await repairNow(problem)).toEqual({ outcome: "mended" });

    const left = (await affinities.listAll()).filter(({ value }) => value.cidr === world.cidr);
    expect(left.map(({ value }) => value.owner.name).sort()).toEqual(["worker-1", "worker-9"]);
  });
});
