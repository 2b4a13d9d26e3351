/** F1: what decides about an address is read when the node's lock is held, whatever changes while others hold it. */
import { readFileSync } from "node:fs";
import { fresh, shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { holdLock } from "../../support/lock-holder-process.ts";
import type { CniRun } from "../../support/node.ts";

const cluster = shared(startCluster);

/** A node with a block of the pool 10.60.0.0/24, and a pod that is to be added. */
async function pooled(): Promise<ApiServerNode> {
  const node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/24"], pods: ["earlier"] });
  await node.add(await node.callOf("earlier", "c0"));
  await node.pod("pod");
  return node;
}

/** ADD that waits for the lock, which somebody else holds until `change` has happened. */
async function addWhile(node: ApiServerNode, change: () => Promise<unknown>): Promise<CniRun> {
  const log_file_path = `${node.node.dir}/cni.log`;
  const holder = await holdLock(`${node.node.dir}/ipam.lock`, 100);
  const adding = node.call("ADD", { conf: { log_file_path } });
  await until("the ADD to wait", () => readFileSync(log_file_path, { encoding: "utf8", flag: "a+" }).includes("waiting for"));
  await change();
  holder.kill();
  return adding;
}

/** Until the server's memory, which plugins may list from, knows of a change. */
async function isKnown(plural: string, what: (spec: Readonly<Record<string, unknown>>) => boolean): Promise<void> {
  await until(`the server's memory of ${plural}`, async () => {
    const { body } = await cluster.api("GET", `/apis/${LEGACY}/${plural}?resourceVersion=0`);
    return (body as { items: { spec: Record<string, unknown> }[] }).items.some(({ spec }) => what(spec));
  });
}

const node = fresh(() => pooled());

describe("F1: an ADD that waits for the node's lock", () => {
  it("gets nothing from a pool that is disabled meanwhile", async () => {
    const run = await addWhile(node, async () => {
      await node.pool("pool4", "10.60.0.0/24", { disabled: true });
      await isKnown("ippools", ({ disabled }) => disabled === true);
    });

    expect(run).toMatchObject({ exit: 1, json: { details: expect.stringContaining("pool-none: ") } });
    expect(Object.keys(await node.held())).toEqual(["net1.c0"]);
  });

  it("gets no address that is reserved meanwhile", async () => {
    const run = await addWhile(node, async () => {
      const spec = { reservedCIDRs: ["10.60.0.0/24"] };
      await cluster.apply({ apiVersion: LEGACY, kind: "IPReservation", metadata: { name: "all" }, spec });
      await isKnown("ipreservations", () => true);
    });

    expect(run).toMatchObject({ exit: 1, json: { details: expect.stringContaining("addresses-exhausted: ") } });
    expect(Object.keys(await node.held())).toEqual(["net1.c0"]);
  });

  it("gets a block of the size that the pool has by now, so that no two blocks overlap", async () => {
    await node.del(await node.callOf("earlier", "c0"));

    const run = await addWhile(node, async () => {
      for (const plural of ["ipamblocks", "blockaffinities", "ippools"])
        for (const { metadata } of await cluster.list(LEGACY, plural)) await cluster.remove(LEGACY, plural, metadata.name);
      await node.pool("pool4", "10.60.0.0/24", { blockSize: 24 });
      // Another node has the pool's only block before this one gets its turn.
      await cluster.createNode("node2");
      await node.pod("elsewhere", { node: "node2" });
      const conf = { nodename: "node2", ipam_lock_file: `${node.node.dir}/2.lock` };
      await node.add({ ...(await node.callOf("elsewhere")), conf });
    });

    expect(run).toMatchObject({ exit: 0 });
    const held = Object.values(await node.held()).flat();
    expect(held).toHaveLength(2);
    expect(new Set(held).size).toBe(2);
    expect((await cluster.list(LEGACY, "ipamblocks")).map(({ spec }) => spec?.cidr)).toEqual(["10.60.0.0/24"]);
  });
});
