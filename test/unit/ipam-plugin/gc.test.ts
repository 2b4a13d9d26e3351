import { withoutOwner } from "../../../ipam-plugin/allocator/block.ts";
import { decodeBlock } from "../../../lib/datastore/calico/block.ts";
import type { AllocationAttribute } from "../../../lib/datastore/resources.ts";
import { fresh } from "../../support/fixtures.ts";
import { IpamNode } from "../../support/ipam-node.ts";
import { emptyBlock, heldBlock, sampleRequest } from "../../support/samples.ts";
import { change, wanted } from "../../support/stored.ts";

const CONF = { ipam: { pools: [{ cidr: "10.40.0.0/24" }] } };
const node = fresh(() => new IpamNode(CONF));

function valid(...containers: string[]) {
  return { conf: { "cni.dev/valid-attachments": containers.map((containerID) => ({ containerID, ifname: "eth0" })) } };
}

const SEEDED = "10.40.0.0/26";

/** Stores one allocation for each attribute, with its handle, in a block of node-a or of nobody. */
async function seed(attributes: readonly AllocationAttribute[], owner = "node-a"): Promise<void> {
  await node.datastore.blocks.create(SEEDED, heldBlock(SEEDED, attributes, { affinity: { type: "host", name: owner } }));
  for (const id of new Set(attributes.flatMap(({ handleId }) => handleId ?? []))) {
    const count = attributes.filter(({ handleId }) => handleId === id).length;
    await node.datastore.handles.create(id, { id, blocks: { [SEEDED]: count } });
  }
}

describe("IPAM GC", () => {
  it("releases what the runtime does not list, and keeps what it does", async () => {
    for (const container of ["c1", "c2", "c3"]) await node.add({ container });
    await node.gc(valid("c2"));
    expect(Object.keys(await node.allocated())).toEqual(["net1.c2"]);
    expect(await node.handles()).toEqual(["net1.c2"]);
    await node.gc(valid());
    expect(await node.handles()).toEqual([]);
  });

  it("S9: passes over another node's block whose allocations cannot be decoded", async () => {
    await node.add({ container: "c1" });
    const { blocks } = node.datastore;
    const list = blocks.list.bind(blocks);
    const [own] = await list();
    const other = own?.value.cidr === "10.40.0.128/26" ? "10.40.0.192/26" : "10.40.0.128/26";
    const lazy = decodeBlock({ cidr: other, affinity: "host:node-b", allocations: [null] }, "IPAMBlock(10-40-0-128-26)");
    blocks.list = async () => [...(await list()), { value: lazy, revision: "1" }];
    await node.gc(valid());
    expect(await node.handles()).toEqual([]);
  });

  it("refuses to run without the list, which would release everything", async () => {
    await node.add();
    await expect(node.gc()).rejects.toMatchObject({ code: 7, word: "attachments-missing" });
    expect(await node.handles()).toEqual(["net1.c1"]);
  });

  it("releases a container whose id has a dot, if its link was found", async () => {
    await node.add({ container: "b.c1" });
    await node.add({ conf: { name: "net1.b" }, container: "c2" });
    await node.gc(valid(), ["b.c1"]);
    expect(await node.handles()).toEqual(["net1.b.c2"]);
  });

  it("keeps a container whose id has a dot and which the runtime lists", async () => {
    await node.add({ container: "b.c1" });
    await node.gc(valid("b.c1"), ["b.c1"]);
    expect(await node.handles()).toEqual(["net1.b.c1"]);
  });

  it("leaves an address that its container was given again since it looked", async () => {
    await node.add({ container: "c1" });
    const { blocks } = node.datastore;
    const list = blocks.list.bind(blocks);
    blocks.list = async () => {
      const found = await list();
      blocks.list = list;
      await node.del({ container: "c1" });
      await node.add({ container: "c1" });
      return found;
    };
    await node.gc(valid());
    expect(Object.keys(await node.allocated())).toEqual(["net1.c1"]);
    expect(await node.handles()).toEqual(["net1.c1"]);
  });

  it("F5: takes null for an empty list, and either key", async () => {
    await node.add({ container: "c1" });
    await node.add({ container: "c2" });
    await node.gc({ conf: { "cni.dev/attachments": [{ containerID: "c2", ifname: "eth0" }] } });
    expect(await node.handles()).toEqual(["net1.c2"]);
    await node.gc({ conf: { "cni.dev/valid-attachments": null } });
    expect(await node.handles()).toEqual([]);
  });

  it("leaves other networks alone, those with a longer name of the same beginning too", async () => {
    for (const name of ["net2", "net10", "net1.b"]) await node.add({ conf: { name } });
    await node.gc(valid());
    expect(await node.handles()).toEqual(["net1.b.c1", "net10.c1", "net2.c1"]);
  });

  it("leaves other nodes, tunnels, virtual machines and legacy handles alone", async () => {
    await seed([
      { handleId: "net1.far", activeOwner: { node: "node-b" } },
      { handleId: "net1.unowned" },
      { handleId: "vxlan-tunnel-addr-node-a", activeOwner: { node: "node-a", type: "vxlanTunnelAddress" } },
      { handleId: "net1.tunnel", activeOwner: { node: "node-a", type: "ipipTunnelAddress" } },
      { handleId: "net1.vmi.shop.vm1", activeOwner: { node: "node-a", "vmi-name": "vm1" } },
      { handleId: "net1.vm", activeOwner: { node: "node-a", "vmi-name": "vm1" } },
      { handleId: "net1.web-0", activeOwner: { node: "node-a", namespace: "net1", pod: "web-0" } },
      { handleId: "c77", activeOwner: { node: "node-a" } },
      { handleId: "net1.gone", activeOwner: { node: "node-a", namespace: "shop", pod: "gone" } },
    ]);
    const before = await node.handles();
    await node.gc(valid());
    expect(await node.handles()).toEqual(before.filter((handle) => handle !== "net1.gone"));
    expect(Object.keys(await node.allocated())).not.toContain("net1.gone");
  });

  it("leaves a handle alone that an ADD of another node holds an address of too", async () => {
    const held = ["node-a", "node-b"].map((name) => ({ handleId: "net1.shared", activeOwner: { node: name } }));
    await seed(held.slice(0, 1));
    const { value: block } = await wanted(node.datastore.blocks.get(SEEDED));
    await change(node.datastore.blocks, SEEDED, {
      allocations: block.allocations.with(1, 1),
      unallocated: block.unallocated.filter((ordinal) => ordinal !== 1),
      attributes: held,
      sequenceNumberForAllocation: { 0: 0n, 1: 1n },
    });
    const before = await node.allocated();
    expect(before).toEqual({ "net1.shared": ["10.40.0.0", "10.40.0.1"] });
    await node.gc(valid());
    expect(await node.allocated()).toEqual(before);
    expect(await node.handles()).toEqual(["net1.shared"]);
  });

  it("leaves a handle without an address alone that counts in a block of its own node and in one of another", async () => {
    await node.add({ container: "kept" });
    const [own] = await node.datastore.blocks.list();
    const foreign = emptyBlock("10.40.0.192/26", 64, { affinity: { type: "host", name: "node-b" } });
    await node.datastore.blocks.create(foreign.cidr, foreign);
    const blocks = { [own?.value.cidr ?? ""]: 1, [foreign.cidr]: 1 };
    await node.datastore.handles.create("net1.both", { id: "net1.both", blocks });
    await node.gc(valid("kept"));
    expect(await node.handles()).toEqual(["net1.both", "net1.kept"]);
    expect((await node.datastore.handles.get("net1.both"))?.value.blocks).toEqual(blocks);
  });

  it("removes the handle that a killed ADD left without an address", async () => {
    await node.add({ container: "c1" });
    const [block] = await node.datastore.blocks.list();
    const cidr = block?.value.cidr ?? "";
    await node.datastore.handles.create("net1.killed", { id: "net1.killed", blocks: { [cidr]: 1 } });
    await node.datastore.handles.create("net1.no-block", { id: "net1.no-block", blocks: { "10.40.0.192/26": 1 } });
    await node.gc(valid("c1"));
    expect(await node.handles()).toEqual(["net1.c1"]);
  });

  it("removes the handle that a killed ADD left in a block that nobody owns", async () => {
    await seed([{ handleId: "net1.far", activeOwner: { node: "node-b" } }]);
    const { value, revision } = await wanted(node.datastore.blocks.get(SEEDED));
    await node.datastore.blocks.update(SEEDED, withoutOwner(value), revision);
    await node.datastore.handles.create("net1.killed", { id: "net1.killed", blocks: { [SEEDED]: 1 } });
    await node.gc(valid());
    expect(await node.handles()).toEqual(["net1.far"]);
  });

  it("releases what it gave, though the handle counts in a block of another node as well", async () => {
    await seed([{ handleId: "net1.gone", activeOwner: { node: "node-a" } }]);
    const foreign = emptyBlock("10.40.0.192/26", 64, { affinity: { type: "host", name: "node-b" } });
    await node.datastore.blocks.create(foreign.cidr, foreign);
    await change(node.datastore.handles, "net1.gone", { blocks: { [SEEDED]: 1, [foreign.cidr]: 1 } });
    await node.gc(valid());
    expect(await node.handles()).toEqual([]);
    expect(await node.allocated()).toEqual({});
  });

  it("leaves an address that is granted while it looks: only the count without one goes", async () => {
    await node.add({ container: "c1" });
    const [block] = await node.datastore.blocks.list();
    await node.datastore.handles.create("net1.starting", { id: "net1.starting", blocks: { [block?.value.cidr ?? ""]: 1 } });
    const { blocks } = node.datastore;
    const list = blocks.list.bind(blocks);
    blocks.list = async () => {
      const found = await list();
      blocks.list = list;
      await node.ipam.allocator.autoAssign(sampleRequest("node-a", "net1.starting"));
      return found;
    };
    await node.gc(valid("c1"));
    expect(Object.keys(await node.allocated())).toEqual(["net1.c1", "net1.starting"]);
    expect(await node.handles()).toEqual(["net1.c1", "net1.starting"]);
  });

  it("leaves a handle without an address alone when another node may be about to take it", async () => {
    await seed([], "node-b");
    await node.datastore.handles.create("net1.busy", { id: "net1.busy", blocks: { [SEEDED]: 1 } });
    await node.gc(valid());
    expect(await node.handles()).toEqual(["net1.busy"]);
  });

  it("leaves a handle alone that has addresses of another node as well", async () => {
    await seed([
      { handleId: "net1.shared", activeOwner: { node: "node-a" } },
      { handleId: "net1.shared", activeOwner: { node: "node-b" } },
    ]);
    await node.gc(valid());
    expect(await node.handles()).toEqual(["net1.shared"]);
    expect((await node.allocated())["net1.shared"]).toHaveLength(2);
  });

  it("leaves a handle without an address alone when one of its blocks is another node's", async () => {
    await seed([]);
    const foreign = "10.40.0.64/26";
    await node.datastore.blocks.create(foreign, emptyBlock(foreign, 64, { affinity: { type: "host", name: "node-b" } }));
    await node.datastore.handles.create("net1.busy", { id: "net1.busy", blocks: { [SEEDED]: 1, [foreign]: 1 } });
    await node.gc(valid());
    expect(await node.handles()).toEqual(["net1.busy"]);
  });

  it("goes on after a failure and reports the first", async () => {
    for (const container of ["c1", "c2", "c3"]) await node.add({ container });
    const { allocator } = node.ipam;
    const releaseByHandle = allocator.releaseByHandle.bind(allocator);
    allocator.releaseByHandle = async (handle) => {
      if (handle !== "net1.c2") throw new Error(`cannot release ${handle}`);
      return releaseByHandle(handle);
    };
    allocator.sharingWrites = () => allocator;
    await expect(node.gc(valid())).rejects.toThrow("cannot release net1.c1");
    expect(await node.handles()).toEqual(["net1.c1", "net1.c3"]);
  });

  it("F2: blanks the annotations of a pod before its address is free, and keeps the address when it cannot", async () => {
    const cleared: unknown[] = [];
    await using node: IpamNode = new IpamNode(CONF, {
      clearAnnotations: async (pod, container) => {
        cleared.push([pod, container, Object.keys(await node.allocated())]);
        if (pod.name === "locked") throw new Error("pods/status: forbidden");
      },
    });
    const argsOf = (pod: string) => `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${pod}`;
    await node.add({ container: "c1", args: argsOf("cart") });
    await node.add({ container: "c2", args: argsOf("locked") });
    await node.add({ container: "c3", args: argsOf("listed") });
    await node.add({ container: "c4" });

    await expect(node.gc(valid("c3"))).rejects.toThrow("pods/status: forbidden");

    expect(cleared).toEqual([
      [{ namespace: "shop", name: "cart" }, "c1", ["net1.c1", "net1.c2", "net1.c3", "net1.c4"]],
      [{ namespace: "shop", name: "locked" }, "c2", ["net1.c1", "net1.c2", "net1.c3", "net1.c4"]],
    ]);
    expect(await node.handles()).toEqual(["net1.c2", "net1.c3"]);
  });
});
