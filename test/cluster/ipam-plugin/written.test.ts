/** What we write is what Calico's components would have written, and keeps to what they have, in both groups (I§2.11). */
import { shared } from "../../support/fixtures.ts";
import { LEGACY, V3 } from "../../support/kubernetes/test-cluster.ts";
import { nameOf, putAffinity, putBlock, putHandle, secondsAgo } from "./calico-objects.ts";
import { World } from "./world.ts";

const DONE = { exit: 0, addresses: [], routes: [], msg: "" };

const world = shared(World.create);

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
