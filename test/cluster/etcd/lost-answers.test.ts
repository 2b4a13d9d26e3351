/**
 * The connection to etcd breaks at each request of an ADD, of its DEL and of a block claim, before etcd has done it and after: the call
 * succeeds all the same, nothing is taken twice, and nothing stays.
 */
import { startEtcd } from "../../support/etcd/etcd.ts";
import { EtcdNode } from "../../support/etcd/etcd-node.ts";
import { EtcdFaultProxy, type Fault } from "../../support/etcd/fault-proxy.ts";
import { shared } from "../../support/fixtures.ts";
import { openDatastoreAt } from "./open-datastore.ts";

/** More than an ADD that claims a block asks. */
const MOST_REQUESTS = 30;

const etcd = shared(startEtcd);
const proxy = shared(() => EtcdFaultProxy.start(etcd));

describe.each<Fault>(["cut", "lose-answer"])("A connection to etcd that breaks (%s)", (fault) => {
  it("costs an ADD that claims a block, and its DEL, nothing but a repetition, at whichever request", async () => {
    await using world = await EtcdNode.create(etcd, proxy);
    const pod = await world.node.addPod();
    let broken = 0;
    for (let at = 1; at <= MOST_REQUESTS; at++) {
      for (const key of ["/calico/ipam/v2/", "/calico/resources/v3/projectcalico.org/profiles/"]) {
        await etcd.ask("/v3/kv/deleterange", { key: btoa(key), range_end: btoa(`${key}\xff`) });
      }
      proxy.set(at, fault);
      const add = await world.call("ADD", pod, { containerId: "c1" });
      const asked = proxy.seen;
      expect({ at, exit: add.exit, stdout: add.stdout }).toMatchObject({ at, exit: 0 });
      expect(await world.keys("ipam/v2/handle/")).toEqual(["/calico/ipam/v2/handle/net1.c1"]);
      expect(await world.endpoint("c1")).toMatchObject({ spec: { containerID: "c1", ipNetworks: [expect.any(String)] } });
      expect((await world.keys("ipam/v2/assignment/")).length).toBe(1);
      expect(await world.held()).toEqual(["net1.c1"]);

      proxy.set(at, fault);
      const del = await world.call("DEL", pod, { containerId: "c1" });
      expect({ at, exit: del.exit, stdout: del.stdout }).toMatchObject({ at, exit: 0 });
      expect(await world.keys("ipam/v2/handle/")).toEqual([]);
      expect(await world.endpoint("c1")).toBeUndefined();
      expect(await world.held()).toEqual([]);
      broken = at;
      if (asked < at && proxy.seen < at) break;
    }
    // The fault had no request to happen to in the end.
    expect(broken).toBeGreaterThan(12);
    expect(broken).toBeLessThan(MOST_REQUESTS);
  });
});

describe("A write that etcd carries out, and whose answer is lost", () => {
  it("is known as done by what it left: created, changed and deleted once, at the revision that etcd gave it", async () => {
    await etcd.clear();
    await using datastore = openDatastoreAt(`http://127.0.0.1:${proxy.port}`);
    const handle = { id: "net.c1", blocks: { "10.60.0.0/26": 1 } };
    proxy.set(1, "lose-answer");
    const made = await datastore.handles.create(handle.id, handle);
    expect(proxy.seen).toBe(2);
    proxy.set(1, "lose-answer");
    const changed = await datastore.handles.update(handle.id, { ...handle, blocks: { "10.60.0.0/26": 2 } }, made.revision);
    expect(proxy.seen).toBe(2);
    expect(await datastore.handles.get(handle.id)).toEqual(changed);
    proxy.set(1, "lose-answer");
    await datastore.handles.delete(handle.id, changed.revision);
    expect(proxy.seen).toBe(2);
    expect((await etcd.contents()).size).toBe(0);
  });
});
