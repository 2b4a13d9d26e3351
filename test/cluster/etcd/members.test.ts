/** Three members of which one is stopped, one is the leader that dies, and one is cut off from the others: nothing is lost, nothing doubled. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { formatPrefix } from "../../../lib/addresses/address.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import { memberMemory } from "../../../lib/datastore/etcd/members.ts";
import { startEtcd, type TestEtcd } from "../../support/etcd/etcd.ts";
import { Islands } from "../../support/etcd/islands.ts";
import { samplePool } from "../../support/samples.ts";
import { openDatastoreAt, openWith } from "./open-datastore.ts";

/** Addresses that one node takes, one after the other; a failed one is asked for again, as a runtime does. */
async function take(
  datastore: Datastore,
  node: string,
  count: number,
  afterEach: (taken: number) => Promise<unknown> = async () => undefined,
) {
  const allocator = new Allocator({ datastore, clock: systemClock, log: () => undefined });
  const taken = new Map<string, string>();
  for (let number = 0; number < count; number++) {
    const handle = `net.${node}-${number}`;
    const { ipv4 } = await allocator.autoAssign(
      { count4: 1, count6: 0, handle, attributes: { node }, owner: { type: "host", name: node }, use: "Workload" },
      { mayBeOld: true },
    );
    if (ipv4?.error !== undefined) throw ipv4.error;
    for (const { prefix } of ipv4?.addresses ?? []) taken.set(formatPrefix(prefix), handle);
    await afterEach(number + 1);
  }
  return taken;
}

/** Every address that somebody was told is stored once, under the handle that took it, and nothing else is. */
async function expectStored(etcd: TestEtcd, taken: readonly ReadonlyMap<string, string>[]): Promise<void> {
  await using datastore = openDatastoreAt(etcd.endpoints);
  const told = taken.flatMap((one) => [...one.values()]).sort();
  expect(new Set(taken.flatMap((one) => [...one.keys()])).size).toBe(told.length);
  const blocks = await datastore.blocks.list();
  const stored = blocks.flatMap(({ value }) =>
    value.allocations.flatMap((index) => (index === null ? [] : [value.attributes[index]?.handleId ?? ""])),
  );
  expect(stored.sort()).toEqual(told);
  expect((await datastore.handles.list()).map(({ value }) => value.id).sort()).toEqual(told);
}

async function withPool(etcd: TestEtcd): Promise<void> {
  await using datastore = openDatastoreAt(etcd.endpoints);
  await datastore.pools.create("pool", samplePool("pool", "10.60.0.0/16", { blockSize: 28 }));
  for (const name of ["node-a", "node-b"]) await datastore.nodes.create(name, { name, labels: {} });
}

describe("etcd of three members", () => {
  it("serves with one of them stopped, whichever a client begins with", async () => {
    await using etcd = await startEtcd({ members: 3 });
    await withPool(etcd);
    await etcd.stopMember(1);
    const inEveryOrder = [0, 1, 2].map((first) => [0, 1, 2].map((offset) => etcd.urls[(first + offset) % 3]).join(","));
    for (const endpoints of inEveryOrder) {
      await using datastore = openDatastoreAt(endpoints);
      expect((await datastore.pools.list()).map(({ value }) => value.name)).toEqual(["pool"]);
    }
  });

  it("loses and doubles nothing when the leader dies in the middle of the work of two nodes", async () => {
    await using etcd = await startEtcd({ members: 3 });
    await withPool(etcd);
    await using one = openDatastoreAt(etcd.endpoints);
    await using other = openDatastoreAt(etcd.endpoints);
    const taken = await Promise.all([
      take(one, "node-a", 40, async (count) => (count === 20 ? etcd.stopMember(await etcd.leader()) : undefined)),
      take(other, "node-b", 40),
    ]);
    expect(taken.map(({ size }) => size)).toEqual([40, 40]);
    await expectStored(etcd, taken);
  });

  it("is asked through another member when one is cut off from the rest, and through that one again when it is back", async () => {
    using islands = new Islands();
    await using etcd = await startEtcd({ places: islands.places });
    await withPool(etcd);
    const leader = await etcd.leader();
    await using onIsland = openWith(etcd.urls[leader] ?? "", { limits: { request: 2_000, least: 2_000 } });
    await using datastore = openDatastoreAt(etcd.endpoints);
    const taken = [
      await take(datastore, "node-a", 30, async (count) => {
        if (count === 10) islands.cutOff(leader);
      }),
    ];
    expect(taken[0]?.size).toBe(30);
    await expect(onIsland.pools.list()).rejects.toMatchObject({ failure: "unavailable" });

    islands.rejoin(leader);
    await using later = openDatastoreAt(etcd.urls[leader] ?? "");
    taken.push(await take(later, "node-b", 5));
    await expectStored(etcd, taken);
  });

  it("is asked by a new process where the one before it was answered, not where it was not", async () => {
    await using etcd = await startEtcd({ members: 3 });
    await withPool(etcd);
    const dead = ((await etcd.leader()) + 1) % 3;
    const memory = memberMemory(join(mkdtempSync(join(tmpdir(), "tortie-memory-")), "members.json"));
    // Every process begins with the dead member, if nobody has told it.
    const inOrder = [0, 1, 2].map((offset) => etcd.urls[(dead + offset) % 3] ?? "");
    const firstTry = 500;
    const open = () => openWith(inOrder.join(","), { memory, random: () => 0, limits: { firstTry } });
    await etcd.stopMember(dead);
    {
      await using first = open();
      await first.pools.list();
    }
    expect([...memory.read().keys()]).toEqual([inOrder[0]]);
    // The first rest is short; this one outlasts the test on the slowest machine.
    memory.write(new Map([[inOrder[0] ?? "", { failures: 6, restsUntil: performance.now() + 29_000 }]]));
    // A reader's own list of whom it asks: the dead one is not in it.
    const asked: string[] = [];
    const watched = { ...memory, write: (health: ReadonlyMap<string, unknown>) => void asked.push(...health.keys()) };
    await using second = openWith(inOrder.join(","), { memory: watched, random: () => 0, limits: { firstTry } });
    await second.pools.list();
    expect(asked).toEqual([]);
  });
});
