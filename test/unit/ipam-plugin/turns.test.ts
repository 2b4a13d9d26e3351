/** What was asked for before the node's lock was had, and may have changed while others held it. */
import type { NodeLock } from "../../../ipam-plugin/node-lock.ts";
import { turns } from "../../../lib/system/turns.ts";
import { freeLock } from "../../support/free-lock.ts";
import { ServerNode } from "./server-node.ts";

const waited = async (): Promise<NodeLock> => ({ ...(await freeLock()), hadToWait: true });

const affinityLists = ({ cluster }: ServerNode) => cluster.calls.filter((call) => call.startsWith("list affinity"));

describe("an ADD that had to wait for the node's lock", () => {
  it("asks for the node's blocks again, from memory, which knows of the one that was claimed meanwhile", async () => {
    using node = await ServerNode.create({ hasMemory: true });
    await node.addresses({ container: "c1" });
    node.cluster.calls.length = 0;
    node.lock = () => {
      node.cluster.memory.hear("affinity");
      return waited();
    };
    await node.addresses({ container: "c2" });
    expect(affinityLists(node)).toEqual(["list affinity old host/node-a/4/", "list affinity old host/node-a/4/"]);
    expect(await node.cluster.blocks()).toHaveLength(1);
  });

  it("asks once when the lock was free", async () => {
    using node = await ServerNode.create({ hasMemory: true });
    await node.addresses({ container: "c1" });
    node.cluster.memory.hear("affinity");
    node.cluster.calls.length = 0;
    await node.addresses({ container: "c2" });
    expect(affinityLists(node)).toEqual(["list affinity old host/node-a/4/"]);
  });
});

describe("a DEL that had to wait for the node's lock", () => {
  it("releases what an ADD of its container took meanwhile, though there was no handle when it asked", async () => {
    using node = await ServerNode.create({}, true);
    await node.addresses({ container: "c1" });
    const { handles } = node.cluster.datastore;
    const made = await handles.get("net1.c1");
    if (made === undefined) throw new Error("no handle");
    await handles.delete("net1.c1", made.revision);
    node.expectDel({ container: "c1" });
    await turns(1);
    // An IPAM plugin that outlived the main plugin that had called it.
    node.lock = () => {
      void handles.create("net1.c1", made.value);
      return waited();
    };
    await node.del({ container: "c1" });
    expect(await node.cluster.handles()).toEqual({});
    expect((await node.cluster.blocks()).map(({ attributes }) => attributes)).toEqual([[]]);
  });

  it("costs one request more only when there was no handle", async () => {
    using node = await ServerNode.create({}, true);
    node.lock = waited;
    expect(await node.requestsOf(() => node.del({ container: "c1" }))).toEqual(["GET handle", "GET handle", "GET handle"]);
    node.lock = freeLock;
    expect(await node.requestsOf(() => node.del({ container: "c1" }))).toEqual(["GET handle", "GET handle"]);
    await node.addresses({ container: "c1" });
    node.lock = waited;
    const requests = await node.requestsOf(() => node.del({ container: "c1" }));
    expect(requests.filter((request) => request === "GET handle")).toHaveLength(2);
  });
});

describe("an ADD that was expected", () => {
  const listsOf = ({ cluster }: ServerNode) => cluster.calls.filter((call) => call.startsWith("list")).sort();
  const OLD = ["list affinity old host/node-a/4/", "list pool old", "list reservation old"];

  it("has its lists asked for at once, and asks for none again", async () => {
    using node = await ServerNode.create({ hasMemory: true });
    await node.addresses({ container: "earlier" });
    node.cluster.memory.hear("affinity");
    node.cluster.calls.length = 0;

    const view = node.expectAdd();
    await turns(1);
    expect(listsOf(node)).toEqual(OLD);
    await node.add({}, { view });

    expect(listsOf(node)).toEqual(OLD);
    expect(Object.keys(await node.cluster.handles())).toEqual(["net1.c1", "net1.earlier"]);
  });

  it("has those of its families asked for", async () => {
    using node = await ServerNode.create({ hasMemory: true });
    node.expectAdd({ ipam: { assign_ipv4: "false", assign_ipv6: "true" } });
    await turns(1);
    expect(listsOf(node)).toEqual(["list affinity old host/node-a/6/", "list pool old", "list reservation old"]);
  });

  it("asks for nothing ahead where lists are never old", async () => {
    using node = await ServerNode.create();
    const view = node.expectAdd();
    await turns(1);
    expect(node.cluster.calls).toEqual([]);
    await node.add({}, { view });
    expect(listsOf(node).filter((call) => call.includes("old"))).toEqual([]);
  });

  it("meets what went wrong ahead when it comes, and nobody else does", async () => {
    using node = await ServerNode.create({ hasMemory: true });
    node.cluster.fateOf = (call) => (call === "list pool old" ? "unavailable" : "proceed");
    const view = node.expectAdd();
    await turns(2);
    await expect(node.add({}, { view })).rejects.toMatchObject({ failure: "unavailable" });
    expect(await node.cluster.handles()).toEqual({});
  });
});

describe("an ADD of a certain address", () => {
  it("goes by a list of pools that is not old", async () => {
    using node = await ServerNode.create({ hasMemory: true, pools: {} });
    await node.cluster.addPool("new", "10.1.0.0/24");
    expect(await node.addresses({ args: "IP=10.1.0.9" })).toEqual(["10.1.0.9/32"]);
    expect(node.cluster.calls.filter((call) => call.startsWith("list pool"))).toEqual(["list pool"]);
  });
});
