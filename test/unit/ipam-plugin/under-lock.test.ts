/** What decides about an address is read when the node's lock is held, whatever changes while others hold it. */
import { join } from "node:path";
import { takeNodeLock } from "../../../ipam-plugin/node-lock.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import { fresh } from "../../support/fixtures.ts";
import { freeLock } from "../../support/free-lock.ts";
import { IpamNode } from "../../support/ipam-node.ts";
import { samplePool, sampleRequest } from "../../support/samples.ts";
import { change, remove } from "../../support/stored.ts";
import { ServerNode } from "./server-node.ts";

type Addresses = Promise<readonly string[]>;

/** A node with a pool 10.0.0.0/24, blocks of /26, that has had a pod. */
interface Stage {
  readonly datastore: Datastore;
  /** An ADD that waits for the lock; others work on the store meanwhile. */
  addWhile(change: () => Promise<unknown>): Addresses;
}

/** On the local store, behind a lock that is really held. */
async function onLocalStore(play: (stage: Stage) => Promise<void>): Promise<void> {
  await using node = new IpamNode({ ipam: { pools: [{ cidr: "10.0.0.0/24", name: "p0" }] } });
  await node.add({ container: "earlier" });
  const addWhile = async (change: () => Promise<unknown>): Addresses => {
    const log = { writeNow() {} };
    const held = await takeNodeLock(join(node.directory, "ipam.lock"), { limitMs: 1000, log });
    const adding = node.addresses();
    adding.catch(() => {});
    while (!node.logged.some((line) => line.includes("waiting for"))) await Bun.sleep(1);
    await change();
    held[Symbol.dispose]();
    return adding;
  };
  await play({ datastore: node.datastore, addWhile });
}

/** On a store like an API server, whose lists come from a memory that knows of every change. */
async function onServer(play: (stage: Stage) => Promise<void>): Promise<void> {
  using node = await ServerNode.create({ hasMemory: true, pools: { "10.0.0.0/24": {} } });
  await node.addresses({ container: "earlier" });
  const addWhile = (change: () => Promise<unknown>): Addresses => {
    node.lock = async () => {
      await change();
      for (const kind of ["pool", "reservation", "affinity"] as const) node.cluster.memory.hear(kind);
      return { ...(await freeLock()), hadToWait: true };
    };
    return node.addresses();
  };
  await play({ datastore: node.cluster.datastore, addWhile });
}

describe.each([
  ["the local store", onLocalStore],
  ["a server", onServer],
])("F1: an ADD that waits for the node's lock, on %s,", (_where, withStage) => {
  it("gives nothing from a pool that is disabled meanwhile", () =>
    withStage(async ({ datastore, addWhile }) => {
      await expect(addWhile(() => change(datastore.pools, "p0", { disabled: true }))).rejects.toMatchObject({ word: "pool-none" });
    }));

  it("gives no address that is reserved meanwhile", () =>
    withStage(async ({ datastore, addWhile }) => {
      const reservation = { name: "router", reservedCIDRs: ["10.0.0.0/24"] };
      const adding = addWhile(() => datastore.reservations.create("router", reservation));
      await expect(adding).rejects.toMatchObject({ word: "addresses-exhausted" });
    }));

  it("claims a block of the size that the pool has meanwhile, so that no two blocks overlap", () =>
    withStage(async ({ datastore, addWhile }) => {
      const recreate = async () => {
        for (const { value, revision } of await datastore.blocks.list()) await datastore.blocks.delete(value.cidr, revision);
        for (const { value, revision } of await datastore.affinities.listAll()) await datastore.affinities.delete(value, revision);
        await remove(datastore.pools, "p0");
        await datastore.pools.create("p0", samplePool("p0", "10.0.0.0/24", { blockSize: 25 }));
      };
      expect(await addWhile(recreate)).toEqual([expect.stringMatching(/\/25$/)]);
      expect((await datastore.blocks.list()).map(({ value }) => value.cidr)).toEqual([expect.stringMatching(/\/25$/)]);
    }));
});

describe("an ADD", () => {
  const lists = ({ cluster }: ServerNode) => cluster.calls.filter((call) => call.startsWith("list")).sort();

  it("reads its lists once, from memory, after it has the lock", async () => {
    using node = await ServerNode.create({ hasMemory: true });
    await node.addresses({ container: "earlier" });
    node.cluster.memory.hear("affinity");
    node.cluster.calls.length = 0;
    node.lock = async () => {
      expect(node.cluster.calls).toEqual([]);
      return freeLock();
    };
    await node.addresses();
    expect(lists(node)).toEqual(["list affinity old host/node-a/4/", "list pool old", "list reservation old"]);
  });

  it("of a certain address goes by a list of pools that is not old", async () => {
    using node = await ServerNode.create({ hasMemory: true, pools: {} });
    await node.cluster.addPool("new", "10.1.0.0/24");
    expect(await node.addresses({ args: "IP=10.1.0.9" })).toEqual(["10.1.0.9/32"]);
    expect(node.cluster.calls.filter((call) => call.startsWith("list pool"))).toEqual(["list pool"]);
  });
});

describe("F6: a DEL that waits for the node's lock", () => {
  const node = fresh(() => ServerNode.create());

  it("asks nothing before it has the lock, and everything once", async () => {
    await node.addresses();
    node.lock = async () => {
      expect(node.cluster.calls).toEqual([]);
      // Long against the time that an answer may take.
      await Bun.sleep(50);
      expect(node.cluster.calls).toEqual([]);
      return { ...(await freeLock()), hadToWait: true };
    };
    const requests = await node.requestsOf(() => node.del());
    expect(requests).toEqual(["GET handle", "GET block", "GET ipam-configuration", "PUT block", "DELETE handle", "GET handle"]);
    expect(await node.requestsOf(() => node.del())).toEqual(["GET handle", "GET handle"]);
  });

  it("asks nothing about the virtual machine of its pod before it has the lock either", async () => {
    await node.addMachine();
    await node.addPod("virt-launcher-a");
    node.lock = async () => {
      expect(node.cluster.calls).toEqual([]);
      return freeLock();
    };
    await node.requestsOf(() => node.del({ pod: "virt-launcher-a" }));
  });

  it("releases what an ADD of its container took meanwhile, by either handle", async () => {
    for (const handle of ["net1.c1", "shop.web-0"]) {
      const { allocator } = node.cluster;
      node.lock = async () => {
        await allocator.autoAssign(sampleRequest("node-a", handle, { attributes: {} }));
        return { ...(await freeLock()), hadToWait: true };
      };
      await node.del();
      expect(await node.cluster.handles()).toEqual({});
      expect((await node.cluster.blocks()).map(({ attributes }) => attributes)).toEqual([[]]);
    }
  });
});
