/**
 * What becomes of each part of a write that several operations of one process share (A§11.7): where their wishes meet, where what the
 * process remembers of a block is old, and where the store fails half-way. On the datastore in memory.
 */

import type { AutoAssignResult } from "../../../../ipam-plugin/allocator/types.ts";
import { address } from "../../../support/addresses.ts";
import { giveUpBlocks } from "../../../support/blocks.ts";
import { addressesOf, host } from "../../../support/cluster.ts";
import { ClusterAgent, NODE } from "../../../support/cluster-agent.ts";
import { fresh } from "../../../support/fixtures.ts";

/** Four addresses, so that a test can fill it. */
const BLOCK = "10.0.0.0/30";
const UPDATE = "update block 10-0-0-0-30";

const agent = fresh(() => ClusterAgent.create({ pools: { [BLOCK]: { blockSize: 30 } } }));

const given = ({ ipv4 }: AutoAssignResult): readonly string[] => addressesOf(ipv4);

describe("Two releases in one write", () => {
  it("of the same handle free its addresses once, and both end", async () => {
    await agent.assign("a", { count4: 2 });

    const released = await Promise.all([agent.release("a"), agent.release("a")]);

    expect(released.flatMap((one) => one.released)).toHaveLength(2);
    expect(await agent.holders(BLOCK)).toEqual([]);
    expect(await agent.cluster.handles()).toEqual({});
  });

  it("that overlap free each address once, and the handle counts what is left", async () => {
    await agent.assign("a", { count4: 3 });

    const [one, both] = await Promise.all([
      agent.allocator.releaseIps([{ address: address("10.0.0.0") }]),
      agent.allocator.releaseIps([{ address: address("10.0.0.0") }, { address: address("10.0.0.1") }]),
    ]);

    expect([one.error, both.error]).toEqual([undefined, undefined]);
    expect([...one.unallocated, ...both.unallocated]).toEqual([address("10.0.0.0")]);
    expect(await agent.holders(BLOCK)).toEqual(["a"]);
    expect(await agent.cluster.handles()).toEqual({ a: { [BLOCK]: 1 } });
  });
});

describe("A block that another process has changed since this one wrote it", () => {
  /** What a second agent of the same cluster does; the first one hears nothing of it. */
  const elsewhere = () => new ClusterAgent(agent.cluster);

  it("is read again before a grant finds it full", async () => {
    await agent.assign("a", { count4: 4 });
    await elsewhere().release("a");

    expect(given(await agent.assign("b"))).toEqual(["10.0.0.0/30"]);
  });

  it("is read again before a release is refused", async () => {
    await agent.assign("a");
    await elsewhere().release("a");
    await elsewhere().assign("b", { count4: 4 });

    const { error, unallocated } = await agent.allocator.releaseIps([{ address: address("10.0.0.0"), handle: "b" }]);

    expect([error, unallocated]).toEqual([undefined, []]);
    expect(await agent.holders(BLOCK)).toEqual(["b", "b", "b"]);
  });

  it("is read again before a release finds nothing", async () => {
    await agent.assign("a");
    await elsewhere().assign("b");

    const { unallocated } = await agent.allocator.releaseIps([{ address: address("10.0.0.1"), handle: "b" }]);

    expect(unallocated).toEqual([]);
    expect(await agent.holders(BLOCK)).toEqual(["a"]);
  });

  it("and that is gone gives no address: another one is claimed", async () => {
    await agent.assign("a");
    await elsewhere().release("a");
    await elsewhere().allocator.releaseAffinity(BLOCK, host(NODE), { mustBeEmpty: true });

    expect(given(await agent.assign("b"))).toHaveLength(1);
    expect(await agent.cluster.affinities()).toEqual([`${NODE} ${BLOCK} confirmed`]);
  });

  it("makes the write count as a conflict, and nothing is remembered of it", async () => {
    await agent.assign("a");
    await elsewhere().assign("b");
    agent.writes.length = 0;

    expect(given(await agent.assign("c"))).toEqual(["10.0.0.2/30"]);

    expect(agent.writes.map(({ outcome }) => outcome)).toEqual(["conflict", "written"]);
  });
});

describe("A release that cannot be carried out", () => {
  it("of addresses that another handle has is refused, and the others of the write go on", async () => {
    await agent.assign("a", { count4: 2 });

    const [refused, granted] = await Promise.all([
      agent.allocator.releaseIps([{ address: address("10.0.0.0"), handle: "stranger" }]),
      agent.assign("b"),
    ]);

    expect(refused.error).toMatchObject({ word: "release-mismatch" });
    expect(given(granted)).toEqual(["10.0.0.2/30"]);
    expect(await agent.holders(BLOCK)).toEqual(["a", "a", "b"]);
  });

  it("of a free address, or in a block that is gone, ends without a write", async () => {
    await agent.cluster.datastore.handles.create("lost", { id: "lost", blocks: { "10.0.0.64/30": 1 } });
    await agent.assign("a");
    agent.cluster.calls.length = 0;

    expect(await agent.allocator.releaseIps([{ address: address("10.0.0.3") }])).toEqual({
      unallocated: [address("10.0.0.3")],
      done: [{ address: address("10.0.0.3") }],
    });
    expect(await agent.release("lost")).toEqual({ found: true, released: [] });

    expect(agent.cluster.calls.filter((call) => call.includes(" block ") && !call.startsWith("get"))).toEqual([]);
    expect(await agent.cluster.handles()).toEqual({ a: { [BLOCK]: 1 } });
  });

  it("ends with the store's error, as a grant does, when nobody can say what became of the write", async () => {
    await agent.assign("a", { count4: 2 });
    let isLost = false;
    agent.cluster.fateOf = (call) => {
      if (call === UPDATE && !isLost) {
        isLost = true;
        return "answer-lost";
      }
      return isLost && call.includes(" block ") ? "unavailable" : "proceed";
    };

    const [granted, released] = await Promise.allSettled([agent.assign("b"), agent.release("a")]);
    agent.cluster.fateOf = undefined;

    expect(granted).toMatchObject({ value: { ipv4: { error: { failure: "unavailable" } } } });
    expect(released).toMatchObject({ status: "rejected", reason: { failure: "unavailable" } });
    await Promise.all([agent.release("a"), agent.release("b")]);
    expect(await agent.holders(BLOCK)).toEqual([]);
    expect(await agent.cluster.handles()).toEqual({});
  });
});

describe("A write of grants and releases together", () => {
  it("whose answer is lost keeps what it granted, and its release is repeated as a DEL is", async () => {
    await agent.assign("a", { count4: 2 });
    let isLost = false;
    agent.cluster.fateOf = (call) => {
      if (call !== UPDATE || isLost) return "proceed";
      isLost = true;
      return "answer-lost";
    };

    const [granted, released] = await Promise.allSettled([agent.assign("b"), agent.release("a")]);

    expect(released).toMatchObject({ reason: { failure: "unavailable" } });
    expect(granted.status === "fulfilled" && given(granted.value)).toEqual(["10.0.0.2/30"]);
    expect(await agent.holders(BLOCK)).toEqual(["b"]);
    await agent.release("a");
    expect(await agent.holders(BLOCK)).toEqual(["b"]);
    expect(await agent.cluster.handles()).toEqual({ b: { [BLOCK]: 1 } });
  });

  it("keeps what it frees back for the cooldown, and grants it when that is over", async () => {
    await agent.cluster.configure({ ipCooldownSeconds: 60 });
    await agent.assign("a", { count4: 3 });

    const [granted] = await Promise.all([agent.assign("b"), agent.release("a")]);
    const early = await agent.assign("c");
    agent.cluster.nowMs += 62_000;

    expect(given(granted)).toEqual(["10.0.0.3/30"]);
    expect(given(early)).toEqual([]);
    expect(given(await agent.assign("c", { count4: 3 }))).toEqual(["10.0.0.0/30", "10.0.0.1/30", "10.0.0.2/30"]);
  });

  it("frees addresses at once where no cooldown is configured", async () => {
    await agent.assign("a", { count4: 2 });

    await Promise.all([agent.assign("b"), agent.release("a")]);

    expect((await agent.cluster.block(BLOCK))?.unallocated).toEqual([3, 0, 1]);
  });
});

describe("A block of nobody", () => {
  it("goes with its last address, and stays while it has another", async () => {
    await agent.cluster.configure({ strictAffinity: false });
    for (const handle of ["a", "b"]) await agent.assign(handle);
    await giveUpBlocks(agent.cluster.allocator, host(NODE), { mustBeEmpty: false });
    await agent.release("a");
    expect(await agent.holders(BLOCK)).toEqual(["b"]);
    await agent.release("b");
    expect(await agent.cluster.blocks()).toEqual([]);
    expect(await agent.cluster.handles()).toEqual({});
  });
});
