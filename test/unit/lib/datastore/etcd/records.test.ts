/** The record of a pod in etcd, which is one for all its interfaces. */
import { MemoryEtcd } from "../../../../support/etcd/memory-etcd.ts";
import { fresh } from "../../../../support/fixtures.ts";
import { sampleEndpoint } from "../../../../support/samples.ts";

const KEY = { namespace: "shop", name: "worker--1-k8s-cart--x2x8q-eth0" };
const of = (containerID: string, name = KEY.name) => sampleEndpoint(KEY.namespace, name, { containerID });

const etcd = fresh(() => new MemoryEtcd());
const datastore = fresh(() => etcd.datastore());

describe("the record of a pod", () => {
  it("is cleared whatever interface a DEL of its container names, and no other pod's is", async () => {
    const neighbour = { ...KEY, name: "worker--1-k8s-cart--x2x8q--2-eth0" };
    for (const { name } of [KEY, neighbour]) await datastore.records.write(of("c1", name));
    const named = { ...KEY, name: "worker--1-k8s-cart--x2x8q-net--1" };
    expect(await datastore.records.clear(named, "c2")).toBe("not-ours");
    expect(await datastore.records.clear(named, "c1")).toBe("cleared");
    expect(await datastore.records.clear(named, "c1")).toBe("gone");
    expect(await datastore.records.read(KEY)).toBeUndefined();
    expect(await datastore.records.read(neighbour)).toMatchObject({ containerID: "c1" });
  });

  it("is another interface's own where it is no pod", async () => {
    const name = "worker--1-cni-c1-eth0";
    await datastore.records.write(of("c1", name));
    expect(await datastore.records.clear({ ...KEY, name: "worker--1-cni-c1-net1" }, "c1")).toBe("gone");
    expect(await datastore.records.read({ ...KEY, name })).toMatchObject({ containerID: "c1" });
  });

  it("costs one request where the ADD has read that there is none, and replaces one that came since", async () => {
    await datastore.records.write(of("c1"), { containerID: undefined });
    expect(etcd.asked).toHaveLength(1);
    await datastore.records.write(of("c2"), { containerID: undefined });
    expect(await datastore.records.read(KEY)).toMatchObject({ containerID: "c2" });
  });
});
