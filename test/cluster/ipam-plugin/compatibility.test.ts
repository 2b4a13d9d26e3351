/** What Calico's components have written is honoured, in both groups. Names of scenarios in brackets are recordings of Calico. */
import { NODE } from "../../support/calico-cases.ts";
import { shared } from "../../support/fixtures.ts";
import { LEGACY, V3 } from "../../support/kubernetes/test-cluster.ts";
import { nameOf, ordinals, putAffinity, putBlock, putHandle, secondsAgo } from "./calico-objects.ts";
import { World } from "./world.ts";

const CIDR = "10.40.0.0/26";
const DONE = { exit: 0, addresses: [], routes: [], msg: "" };
/** One block, so that everything happens in it. */
const ONE_BLOCK = { p4: { cidr: CIDR } };

const world = shared(World.create);

describe.each([LEGACY, V3] as const)("what Calico has written, group %s", (group) => {
  const owner = { node: NODE, pod: "old-0", namespace: "default" };

  beforeEach(() => world.reset(group, ONE_BLOCK));

  /** A block of this node with one address of `handle_id`, at ordinal 9, and the handle that counts it. */
  async function heldAddress(handle_id: string, spec: Readonly<Record<string, unknown>> = {}, handle = handle_id): Promise<void> {
    await putAffinity(world, NODE, CIDR);
    await putBlock(world, CIDR, {
      affinity: `host:${NODE}`,
      ...ordinals({ 9: 0 }),
      attributes: [{ handle_id, secondary: owner }],
      sequenceNumberForAllocation: { "9": 1787405600123456005n },
      ...spec,
    });
    await putHandle(world, handle, { [CIDR]: 1 });
  }

  it.each([
    ["the container's handle", "net1.cid1", "net1.cid1"],
    ["the bare container id", "cid1", "cid1"],
    ["namespace and name of the pod", "default.old-0", "default.old-0"],
    ["a handle in capitals", "Net1.CID1", "Net1.CID1"],
    ["a handle that ends with a carriage return and more", "net1.cid1\r\n", "net1.cid1"],
  ])("is released under %s", async (_what, id, handle) => {
    const isPods = handle === "default.old-0";
    // By a handle that is the container's id alone, a container that is no pod's releases nothing of a pod (M1).
    const secondary = handle === "cid1" ? { node: NODE } : owner;
    await heldAddress(id, { attributes: [{ handle_id: id, secondary }] }, handle);
    const conf = handle === "Net1.CID1" ? { conf: { name: "Net1" }, container: "CID1" } : {};
    expect(await world.del({ ...conf, ...(isPods ? { pod: "old-0" } : {}) })).toEqual(DONE);
    expect(await world.handles()).toEqual([]);
    expect(await world.block(nameOf(CIDR))).toMatchObject({
      affinity: `host:${NODE}`,
      attributes: [],
      sequenceNumber: 1787405600123456007n,
    });
  });

  it("is borrowed: an address in another node's block is released, and the block stays the other's", async () => {
    await heldAddress("net1.cid1", { affinity: "host:worker-1" });
    expect(await world.del()).toEqual(DONE);
    expect(await world.block(nameOf(CIDR))).toMatchObject({ affinity: "host:worker-1", attributes: [] });
  });

  it("is borrowed from when the pool has no other block, and not under strict affinity", async () => {
    await putAffinity(world, "worker-1", CIDR);
    await putBlock(world, CIDR, {
      affinity: "host:worker-1",
      affinityClaimTime: secondsAgo(1),
      ...ordinals({ 0: 0 }),
      attributes: [{ handle_id: "net1.other", secondary: { node: "worker-1" } }],
    });
    expect((await world.add()).addresses).toEqual(["10.40.0.1/26"]);
    expect(await world.block(nameOf(CIDR))).toMatchObject({ affinity: "host:worker-1", attributes: [{}, { secondary: { node: NODE } }] });
    await world.configure({ strictAffinity: true });
    const { exit, msg } = await world.add({ container: "cid2" });
    expect(exit).toBe(1);
    expect(msg).toContain("No more free affine blocks and strict affinity enabled");
  });

  it("is a block without owner that goes with its last address", async () => {
    await putBlock(world, CIDR, { ...ordinals({ 9: 0 }), attributes: [{ handle_id: "net1.cid1", secondary: owner }] });
    await putHandle(world, "net1.cid1", { [CIDR]: 1 });
    expect(await world.del()).toEqual(DONE);
    expect(await world.blocks()).toEqual([]);
    expect(await world.handles()).toEqual([]);
  });

  it("is an affinity without labels or type: it is used, and gets them (affinity-no-labels-only)", async () => {
    await heldAddress("net1.other");
    await world.cluster.remove(group, "blockaffinities", `${NODE}-${nameOf(CIDR)}`);
    await putAffinity(world, NODE, CIDR, { isLabelled: false });
    expect((await world.add()).addresses).toEqual(["10.40.0.0/26"]);
    expect((await world.get("blockaffinities", `${NODE}-${nameOf(CIDR)}`))?.metadata.labels).toMatchObject({
      "projectcalico.org/hostname-hash": "PY3TQE2E3XMTETLM2MJO3UITKPFB27YUJ4T4E5XGPEJON3SM4QAA",
    });
    expect(await world.requestsOf(() => world.add({ container: "cid2" }))).toHaveLength(6);
  });

  it.each(["pending", "pendingDeletion", ""])("is an affinity in the state %j: it is completed, or counts as confirmed", async (state) => {
    await heldAddress("net1.other");
    await putAffinity(world, NODE, CIDR, { state });
    expect((await world.add()).addresses).toEqual(["10.40.0.0/26"]);
    const after = (await world.get("blockaffinities", `${NODE}-${nameOf(CIDR)}`))?.spec?.state;
    expect(after).toBe(state === "" ? "" : "confirmed");
  });

  it("is an affinity marked as deleted: it is none, and ADD does not fail (affinity-deleted-mark-claim)", async () => {
    await putAffinity(world, NODE, CIDR, { deleted: true });
    expect((await world.add()).addresses).toEqual(["10.40.0.0/26"]);
    expect((await world.get("blockaffinities", `${NODE}-${nameOf(CIDR)}`))?.spec).toMatchObject({
      state: "confirmed",
      deleted: group === LEGACY ? "false" : false,
    });
  });

  it("is a block marked as deleted: it is none, and is made anew", async () => {
    await putBlock(world, CIDR, { affinity: "host:worker-1", ...ordinals({ 0: 0 }), attributes: [{ handle_id: "x" }], deleted: true });
    expect((await world.add()).addresses).toEqual(["10.40.0.0/26"]);
    expect(await world.block(nameOf(CIDR))).toMatchObject({
      affinity: `host:${NODE}`,
      attributes: [{ handle_id: "net1.cid1" }],
      deleted: false,
    });
  });

  it("is a handle marked as deleted: it is none, for ADD and for DEL", async () => {
    await putHandle(world, "net1.cid1", { "10.9.0.0/26": 1 }, true);
    expect(await world.del()).toEqual(DONE);
    expect(await world.handles()).toEqual([]);
    await putHandle(world, "net1.cid1", { "10.9.0.0/26": 1 }, true);
    expect((await world.add()).addresses).toEqual(["10.40.0.0/26"]);
    expect((await world.get("ipamhandles", "net1.cid1"))?.spec).toEqual({ handleID: "net1.cid1", block: { [CIDR]: 1 }, deleted: false });
  });

  it.each([
    ["counts more than there is (handle-count-high)", { [CIDR]: 3 }],
    ["counts less than there is (handle-count-low)", { [CIDR]: 1 }],
    ["counts a block that is gone (handle-no-block)", { [CIDR]: 2, "10.9.0.0/26": 1 }],
  ])("is a handle that %s: nothing is left after DEL", async (_what, counts) => {
    await heldAddress("net1.cid1", { ...ordinals({ 9: 0, 10: 0 }) });
    await putHandle(world, "net1.cid1", counts);
    expect(await world.del()).toEqual(DONE);
    expect(await world.handles()).toEqual([]);
    expect((await world.block(nameOf(CIDR)))?.attributes).toEqual([]);
  });

  it("is a damaged block: an ordinal that is allocated and listed as free is not given out again (unallocated-double)", async () => {
    await heldAddress("net1.other", { unallocated: [9, 9, 12, 3] });
    expect((await world.add()).addresses).toEqual(["10.40.0.12/26"]);
    expect(await world.heldBy("net1.other")).toEqual([{ address: "10.40.0.9", active: owner, alternate: {} }]);
  });

  it("is a pool that may not be used: disabled, being deleted, not allocatable, by hand only, not for workloads", async () => {
    const finalizers = ["projectcalico.org/ippool-finalizer"];
    const condition = { type: "Allocatable", status: "False", reason: "CIDROverlap", message: "", lastTransitionTime: secondsAgo(60) };
    await world.change("ippools", "p4", { disabled: true });
    await world.createPool("deleting", { cidr: "10.41.0.0/24", finalizers });
    await world.cluster.api("DELETE", `/apis/${group}/ippools/deleting`);
    await world.createPool("overlapping", { cidr: "10.42.0.0/24", status: { conditions: [condition] } });
    await world.createPool("manual", { cidr: "10.43.0.0/24", assignmentMode: "Manual" });
    await world.createPool("tunnels", { cidr: "10.44.0.0/24", allowedUses: ["Tunnel"] });
    expect(await world.add()).toMatchObject({ exit: 1, msg: expect.stringContaining("cannot find a qualified ippool") });
    expect((await world.add({ ipam: { ipv4_pools: ["manual"] } })).addresses).toEqual([expect.stringMatching(/^10\.43\./)]);
    for (const pool of ["p4", "deleting", "overlapping"]) {
      expect(await world.add({ ipam: { ipv4_pools: [pool] } })).toMatchObject({ exit: 1, msg: expect.stringContaining("is not enabled") });
    }
  });

  it("is a limit of blocks for each node, with its words", async () => {
    await world.configure({ strictAffinity: true, maxBlocksPerHost: 1 });
    await world.createPool("small", { cidr: "10.45.0.0/28", blockSize: 29 });
    const ipam = { ipv4_pools: ["small"] };
    for (let n = 0; n < 8; n++) expect(await world.add({ container: `c${n}`, ipam })).toMatchObject({ exit: 0 });
    const { exit, msg } = await world.add({ ipam });
    expect(exit).toBe(1);
    expect(msg).toContain("cannot allocate new block due to per host block limit");
    expect(await world.handles()).toHaveLength(8);
  });

  it("is not spoilt: what others keep on an object stays when we write it", async () => {
    await heldAddress("net1.other");
    const before = await world.get("ipamblocks", nameOf(CIDR));
    await world.cluster.apply({
      apiVersion: group,
      kind: "IPAMBlock",
      metadata: { name: nameOf(CIDR), labels: { team: "net" }, annotations: { ...before?.metadata.annotations, note: "keep" } },
      spec: before?.spec ?? {},
    });
    await world.add();
    expect((await world.get("ipamblocks", nameOf(CIDR)))?.metadata).toMatchObject({
      labels: { team: "net" },
      annotations: { note: "keep" },
    });
  });
});
