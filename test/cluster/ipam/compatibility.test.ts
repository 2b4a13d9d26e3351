/**
 * Two-way compatibility by data, in both groups: what Calico's components have written is honoured, and what we write is what they would
 * have. Names of scenarios in brackets are recordings of Calico.
 */
import { LEGACY, V3 } from "../../support/kubernetes/cluster.ts";
import { nameOf, ordinals, putAffinity, putBlock, putHandle } from "./calico-objects.ts";
import { NODE, World } from "./world.ts";

const CIDR = "10.40.0.0/26";
const DONE = { exit: 0, addresses: [], routes: [], msg: "" };
/** One block, so that everything happens in it. */
const ONE_BLOCK = { p4: { cidr: CIDR } };

let world: World;
beforeAll(async () => {
  world = await World.create();
});
afterAll(() => world[Symbol.asyncDispose]());

function secondsAgo(seconds: number): string {
  return `${new Date(Date.now() - seconds * 1000).toISOString().slice(0, 19)}Z`;
}

describe.each([LEGACY, V3] as const)("what we write, group %s", (group) => {
  const EDGE = { "edge-v4": { cidr: "10.40.0.0/24", blockSize: 29, vxlanMode: "CrossSubnet", nodeSelector: "zone == 'edge'" } };
  const MINE = { conf: { nodename: "worker-1", name: "k8s-pod-network" }, container: "7f3c9d0e5b1a" };

  beforeEach(async () => {
    await world.reset(group, EDGE);
    await world.cluster.createNode("worker-1", { zone: "edge" });
  });

  it("is a block, an affinity and a handle as in Calico's own store (I§2.11)", async () => {
    const before = BigInt(Date.now()) * 1_000_000n;
    const { addresses } = await world.add({ ...MINE, pod: "cart-6d9f7-x2x8q" });
    const [block] = await world.list("ipamblocks");
    const cidr = String(block?.spec?.cidr);
    const ordinal0 = cidr.replace(/\/29$/, "");
    expect(addresses).toEqual([`${ordinal0}/29`]);
    expect(block).toEqual({
      apiVersion: group,
      kind: "IPAMBlock",
      metadata: {
        name: nameOf(cidr),
        uid: expect.any(String),
        resourceVersion: expect.any(String),
        creationTimestamp: expect.any(String),
        generation: 2,
        managedFields: expect.any(Array),
      },
      spec: {
        cidr,
        affinity: "host:worker-1",
        affinityClaimTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
        allocations: [0, null, null, null, null, null, null, null],
        unallocated: [1, 2, 3, 4, 5, 6, 7],
        attributes: [
          {
            handle_id: "k8s-pod-network.7f3c9d0e5b1a",
            secondary: {
              node: "worker-1",
              namespace: "default",
              pod: "cart-6d9f7-x2x8q",
              timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})? \+0000 UTC$/),
            },
          },
        ],
        sequenceNumber: expect.any(BigInt),
        sequenceNumberForAllocation: { "0": expect.any(BigInt) },
        deleted: false,
        strictAffinity: false,
      },
    });
    const stored = await world.block(nameOf(cidr));
    const first = stored?.sequenceNumberForAllocation["0"] ?? 0n;
    expect(stored?.sequenceNumber).toBe(first + 1n);
    expect(first).toBeGreaterThan(before);

    expect(await world.list("blockaffinities")).toEqual([
      {
        apiVersion: group,
        kind: "BlockAffinity",
        metadata: expect.objectContaining({
          name: `worker-1-${nameOf(cidr)}`,
          labels: {
            "projectcalico.org/hostname-hash": "CPU5J3TPSNHFA66J45DG4Z5C3PSJAZ36LD46JZLYEGZSTAWBUCUA",
            "projectcalico.org/affinity-type": "host",
            "projectcalico.org/ip-version": "4",
          },
        }),
        spec: { state: "confirmed", node: "worker-1", type: "host", cidr, deleted: group === LEGACY ? "false" : false },
      },
    ]);
    expect(await world.list("ipamhandles")).toEqual([
      {
        apiVersion: group,
        kind: "IPAMHandle",
        metadata: expect.objectContaining({ name: "k8s-pod-network.7f3c9d0e5b1a" }),
        spec: { handleID: "k8s-pod-network.7f3c9d0e5b1a", block: { [cidr]: 1 }, deleted: false },
      },
    ]);
  });

  it("keeps to the block of the contract's example: queue, cooldown, shared attributes and exact numbers (I§2.11)", async () => {
    const cidr = "10.40.0.8/29";
    const tunnel = { handle_id: "vxlan-tunnel-addr-worker-1", secondary: { node: "worker-1", type: "vxlanTunnelAddress" } };
    const cart = {
      handle_id: "k8s-pod-network.0a",
      secondary: { node: "worker-1", namespace: "shop", pod: "cart-6d9f7-x2x8q", timestamp: "2026-08-22 13:33:24.5 +0000 UTC" },
    };
    const cold = { releasedAt: secondsAgo(5) };
    await world.configure({ ipCooldownSeconds: 60 });
    await world.put("IPReservation", { name: "keep-gateways" }, { reservedCIDRs: ["10.40.0.12/32", "10.40.0.240/28"] });
    await putAffinity(world, "worker-1", cidr);
    await putHandle(world, "k8s-pod-network.0a", { [cidr]: 1 });
    await putBlock(world, cidr, {
      affinity: "host:worker-1",
      affinityClaimTime: "2026-08-22T13:33:20Z",
      allocations: [0, 1, null, 2, null, null, null, null],
      unallocated: [4, 5, 6, 7, 2],
      attributes: [tunnel, cart, cold],
      sequenceNumberForAllocation: { "0": 1787405600123456000n, "1": 1787405600123456001n, "3": 1787405600123456005n },
    });

    // 4 is reserved and keeps its place at the head.
    expect((await world.add({ ...MINE, args: "IgnoreUnknown=1" })).addresses).toEqual(["10.40.0.13/29"]);
    const taken = await world.block("10-40-0-8-29");
    expect(taken).toMatchObject({
      affinity: "host:worker-1",
      affinityClaimTime: "2026-08-22T13:33:20Z",
      allocations: [0, 1, null, 2, null, 3, null, null],
      unallocated: [4, 6, 7, 2],
      sequenceNumber: 1787405600123456007n,
      sequenceNumberForAllocation: {
        "0": 1787405600123456000n,
        "1": 1787405600123456001n,
        "3": 1787405600123456005n,
        "5": 1787405600123456006n,
      },
    });
    expect(taken?.attributes.slice(0, 3)).toEqual([tunnel, cart, cold]);

    expect(await world.del(MINE)).toEqual(DONE);
    const released = await world.block("10-40-0-8-29");
    expect(released).toMatchObject({ allocations: [0, 1, null, 2, null, 3, null, null], unallocated: [4, 6, 7, 2] });
    expect(released?.attributes).toEqual([tunnel, cart, cold, { releasedAt: expect.any(String) }]);
    expect(released?.sequenceNumber).toBe(1787405600123456008n);
    expect(await world.handles()).toEqual(["k8s-pod-network.0a"]);

    // Without a cooldown they are free by the next write, in ascending order at the tail.
    await world.configure({ ipCooldownSeconds: 0 });
    expect((await world.add(MINE)).addresses).toEqual(["10.40.0.14/29"]);
    expect((await world.block("10-40-0-8-29"))?.unallocated).toEqual([4, 7, 2, 3, 5]);
  });

  it("keeps a DEL from freeing more than the container's own address of a shared block", async () => {
    await world.add({ ...MINE, container: "one" });
    await world.add({ ...MINE, container: "two" });
    expect(await world.del({ ...MINE, container: "one" })).toEqual(DONE);
    expect(await world.handles()).toEqual(["k8s-pod-network.two"]);
    expect(await world.heldBy("k8s-pod-network.two")).toHaveLength(1);
    expect((await world.blocks())[0]?.allocations.filter((index) => index !== null)).toHaveLength(1);
  });
});

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
    await heldAddress(id, {}, handle);
    const isPods = handle === "default.old-0";
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
    await putBlock(world, CIDR, { affinity: "host:worker-1", ...ordinals({ 0: 0 }), attributes: [{ handle_id: "x" }] }, { deleted: true });
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
