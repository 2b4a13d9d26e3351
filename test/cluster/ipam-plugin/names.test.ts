/**
 * Names that CNI allows and Kubernetes does not: refused before anything is touched, or stored under another name that is legal. Calico
 * finds out after 90 seconds and 500 requests, or crashes (recordings handle-underscore, long-container, vm-long-name).
 */
import type { Answer } from "../../support/calico-cases.ts";
import { shared } from "../../support/fixtures.ts";
import { LEGACY } from "../../support/kubernetes/test-cluster.ts";
import { SOURCE, VirtualMachine } from "./virtual-machine.ts";
import { type Call, World } from "./world.ts";

const DONE = { exit: 0, addresses: [], routes: [], msg: "" };

const world = shared(World.create);
beforeEach(() => world.reset(LEGACY));

describe("an ADD on Kubernetes", () => {
  it.each<[string, Call, string?]>([
    ["a container id with _", { container: "cid_1" }],
    ["a network's name with _", { conf: { name: "net_1" } }],
    ["a network's name with _, for a virtual machine's pod", { conf: { name: "net_1" }, pod: SOURCE }],
    ["a network's name that ends with -", { conf: { name: "net-" } }],
    ["a container id of 250 characters", { container: "c".repeat(250) }],
    ["a node in capitals (node-name-capital)", { conf: { nodename: "Node-A" } }, 'Node(Node-A) with error: nodes "Node-A" not found'],
    ["a node of 260 characters (long-node-260)", { conf: { nodename: "n".repeat(260) } }, "not found"],
  ])("is refused for %s, without one request, and its DEL succeeds", async (_what, call, message = "cannot be stored") => {
    let answer: Answer | undefined;
    const requests = await world.requestsOf(async () => {
      answer = await world.add(call);
    });
    expect(answer).toMatchObject({ exit: 1, msg: expect.stringContaining(message) });
    expect(requests).toEqual([]);
    expect(await world.del(call)).toEqual(DONE);
    expect(await world.list("ipamblocks")).toEqual([]);
  });

  it("shares a handle with a container whose id differs in case only, and each DEL frees its own (handle-case-collision)", async () => {
    await world.add({ container: "ABC" });
    await world.add({ container: "abc" });
    expect((await world.list("ipamhandles")).map(({ spec }) => spec)).toEqual([
      { handleID: "net1.ABC", block: { [String((await world.blocks())[0]?.cidr)]: 2 }, deleted: false },
    ]);
    expect(await world.del({ container: "abc" })).toEqual(DONE);
    expect([await world.heldBy("net1.ABC"), await world.heldBy("net1.abc")]).toEqual([[expect.anything()], []]);
    expect(await world.del({ container: "ABC" })).toEqual(DONE);
    expect(await world.handles()).toEqual([]);
    expect(await world.heldBy("net1.ABC")).toEqual([]);
  });

  it("stores the addresses of a machine with a very long name under a handle that Kubernetes takes", async () => {
    const machine = await VirtualMachine.create(world, true, `vm-${"x".repeat(230)}`);
    await machine.putPod(SOURCE);
    const first = await machine.add(SOURCE);
    expect(first).toMatchObject({ exit: 0, addresses: [expect.any(String), expect.any(String)] });
    expect(await world.handles()).toEqual([expect.stringMatching(/^net1\.vmi\.[0-9a-f]{32,}$/)]);
    expect(await machine.del(SOURCE)).toEqual(DONE);
    const again = await machine.add(SOURCE, "next");
    const bare = (answer: Answer) => answer.addresses.map((address) => address.replace(/\/\d+$/, ""));
    expect(bare(again)).toEqual(bare(first));
    await machine.deleting("virtualmachines");
    expect(await machine.del(SOURCE, "next")).toEqual(DONE);
    expect(await world.handles()).toEqual([]);
  });
});

describe("the objects of Kubernetes that an ADD needs", () => {
  it("are none for an address of a block that the node has, of a pool that selects every node and namespace", async () => {
    await world.add({ container: "earlier" });
    await world.cluster.remove("v1", "nodes", "node-a");
    expect(await world.add({ args: "IgnoreUnknown=1;K8S_POD_NAME=a;K8S_POD_NAMESPACE=nowhere" })).toMatchObject({ exit: 0 });
  });

  it("R2: are the node's own before it gets a block, which nobody would route otherwise", async () => {
    await world.cluster.remove("v1", "nodes", "node-a");
    expect(await world.add()).toMatchObject({ exit: 1, msg: expect.stringContaining("resource does not exist: Node(node-a)") });
    expect([await world.blocks(), await world.list("blockaffinities"), await world.handles()]).toEqual([[], [], []]);
    await world.cluster.createNode("node-a");
    expect(await world.add()).toMatchObject({ exit: 0 });
  });

  it("are named when they are missing: the namespace, the node", async () => {
    const nowhere = { args: "IgnoreUnknown=1;K8S_POD_NAME=a;K8S_POD_NAMESPACE=nowhere" };
    await world.change("ippools", "p4", { namespaceSelector: "team == 'x'", allowedUses: ["Workload"] });
    expect(await world.add(nowhere)).toMatchObject({ exit: 1, msg: expect.stringContaining("failed to get namespace nowhere:") });
    await world.change("ippools", "p4", { namespaceSelector: "", nodeSelector: "!has(zone)" });
    await world.cluster.remove("v1", "nodes", "node-a");
    expect(await world.add()).toMatchObject({ exit: 1, msg: expect.stringContaining("resource does not exist: Node(node-a)") });
    expect(await world.handles()).toEqual([]);
  });

  it("decide by their labels", async () => {
    await world.change("ippools", "p4", { namespaceSelector: "team == 'x'", nodeSelector: "zone == 'edge'", allowedUses: ["Workload"] });
    const inShop = { args: "IgnoreUnknown=1;K8S_POD_NAME=a;K8S_POD_NAMESPACE=shop" };
    await world.cluster.createNamespace("shop", {}, { team: "y" });
    await world.cluster.createNode("node-a", { zone: "edge" });
    expect(await world.add(inShop)).toMatchObject({ exit: 1, msg: expect.stringContaining("no configured Calico pools for node node-a") });
    await world.cluster.createNamespace("shop", {}, { team: "x" });
    expect(await world.add(inShop)).toMatchObject({ exit: 0, addresses: [expect.stringMatching(/^192\.168\./)] });
    await world.cluster.createNode("node-a", { zone: "core" });
    expect(await world.add({ ...inShop, container: "cid2" })).toMatchObject({ exit: 1 });
    // Requested by name, selectors do not count.
    expect(await world.add({ ...inShop, container: "cid2", ipam: { ipv4_pools: ["p4"] } })).toMatchObject({ exit: 0 });
  });
});
