/** An ADD for a container that should hold nothing yet: what a killed ADD left is noticed before anything is taken. */
import { HandleExistsError } from "../../../ipam-plugin/ipam-plugin.ts";
import { address } from "../../support/addresses.ts";
import { fresh } from "../../support/fixtures.ts";
import { remove } from "../../support/stored.ts";
import { ServerNode } from "./server-node.ts";

const DUAL = { assign_ipv6: "true" };

const node = fresh(() => ServerNode.create());

/** Rejects with the signal, and has changed nothing. */
async function expectRefused(node: ServerNode, call: Parameters<ServerNode["add"]>[0]): Promise<void> {
  const before = [await node.cluster.blocks(), await node.cluster.handles()];
  await expect(node.add(call, { mustBeNew: true })).rejects.toBeInstanceOf(HandleExistsError);
  expect([await node.cluster.blocks(), await node.cluster.handles()]).toEqual(before);
}

describe("an ADD whose container should hold nothing", () => {
  it("takes an address of each family, with no more requests than any other", async () => {
    await node.add({ container: "earlier", ipam: DUAL });
    const { addresses } = await node.add({ ipam: DUAL }, { mustBeNew: true });
    expect(addresses).toHaveLength(2);
    const usual = await node.requestsOf(() => node.add({ container: "c2", ipam: DUAL }));
    expect(await node.requestsOf(() => node.add({ container: "c3", ipam: DUAL }, { mustBeNew: true }))).toEqual(usual);
  });

  it("takes nothing when the container holds an address", async () => {
    await node.add();
    await expectRefused(node, { ipam: DUAL });
  });

  it("takes nothing when the container has a handle that counts an address which was never taken", async () => {
    await node.add({ container: "earlier" });
    await node.cluster.datastore.handles.create("net1.c1", { id: "net1.c1", blocks: { "10.0.0.128/26": 1 } });
    await expectRefused(node, {});
  });

  it("notices the container's own address when it is the last one of the pool", async () => {
    using node = await ServerNode.create({ pools: { "10.0.0.0/32": { blockSize: 32 } } });
    await node.add();
    await expectRefused(node, {});
    await expect(node.add({ container: "c2" }, { mustBeNew: true })).rejects.toMatchObject({ word: "addresses-exhausted" });
  });

  it("is told why the datastore failed, not that the container holds something", async () => {
    await node.add();
    node.cluster.answers("list", "unavailable");
    await expect(node.add({}, { mustBeNew: true })).rejects.toMatchObject({ failure: "unavailable" });
  });

  it("is told that no address is left when its handle cannot be looked for", async () => {
    using node = await ServerNode.create({ pools: { "10.0.0.0/32": { blockSize: 32 } } });
    await node.add({ container: "other" });
    node.cluster.answers("get handle net1.c1", "unavailable");
    await expect(node.add({}, { mustBeNew: true })).rejects.toMatchObject({ word: "addresses-exhausted" });
  });

  it("notices the container's own address when that is what is asked for", async () => {
    await node.add({ args: "IP=10.0.0.9" });
    await expectRefused(node, { args: "IP=10.0.0.9" });
    await expectRefused(node, { args: "IP=10.0.0.10" });
    await expect(node.add({ container: "c2", args: "IP=10.0.0.9" }, { mustBeNew: true })).rejects.toMatchObject({ word: "address-taken" });
  });

  it("is not taken in by the handle that it made itself, when others write its block at the same moment", async () => {
    await node.add({ container: "earlier", ipam: DUAL });
    const { cluster } = node;
    const other = () =>
      cluster.allocator.assignIp({ address: address("10.0.0.140"), handle: "x", attributes: {}, owner: { type: "host", name: "x" } });
    cluster.before("update block 10-0-0-128-26", other);
    expect((await node.add({ ipam: DUAL }, { mustBeNew: true })).addresses).toHaveLength(2);
    expect(Object.values((await cluster.handles())["net1.c1"] ?? {})).toEqual([1, 1]);
  });
});

describe("an ADD on an API server", () => {
  it.each([
    [{ namespaceSelector: "", nodeSelector: "all()" }, ""],
    [{ namespaceSelector: "team == 'x'" }, 'failed to get namespace shop: namespaces "shop" not found'],
  ])("is refused for a namespace that does not exist only when a pool asks for its labels: %j", async (changes, message) => {
    using node = await ServerNode.create({ pools: { "10.0.0.0/24": changes } });
    const outcome = await node.addresses().catch((error: Error) => error.message);
    if (message === "") expect(outcome).toHaveLength(1);
    else expect(outcome).toBe(message);
  });

  it.each(["all()", "!has(zone)"])("R2: is refused for a node that does not exist before it gets a block: %s", async (nodeSelector) => {
    using node = await ServerNode.create({ pools: { "10.0.0.0/24": { nodeSelector } }, nodes: {} });
    await expect(node.addresses()).rejects.toMatchObject({
      failure: "not-found",
      message: 'resource does not exist: Node(node-a) with error: nodes "node-a" not found',
    });
    expect(await node.cluster.blocks()).toEqual([]);
    expect(await node.cluster.affinities()).toEqual([]);
  });

  it("R2: needs no Node for an address of a block that the node has", async () => {
    await node.addresses({ container: "c0" });
    await remove(node.cluster.datastore.nodes, "node-a");
    expect(await node.addresses({ container: "c1" })).toHaveLength(1);
  });
});
