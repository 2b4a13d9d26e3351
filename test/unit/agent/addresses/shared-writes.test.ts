/** Grants and releases of one block by many operations of one process (A§11.7), on the datastore in memory. */

import { sharedServices } from "../../../../agent/addresses/blocks-parts.ts";
import { cachedDatastore } from "../../../../agent/addresses/cached-datastore.ts";
import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import type { AutoAssignResult } from "../../../../ipam-plugin/allocator/types.ts";
import { addressesOf, Cluster, host } from "../../../support/cluster.ts";

const NODE = "node-a";
const BLOCK = "update block 10-0-0-0-26";

interface Agent {
  readonly cluster: Cluster;
  readonly allocator: Allocator;
  /** Parts of each write. */
  readonly writes: number[];
  assign(handle: string): Promise<AutoAssignResult>;
}

async function agentWithBlock(): Promise<Agent> {
  const cluster = await Cluster.create({ pools: { "10.0.0.0/26": { blockSize: 26 } } });
  const writes: number[] = [];
  let ns = 1_787_405_600_000_000_000n;
  const allocator = new Allocator({
    datastore: cachedDatastore(cluster.observed),
    clock: { nowMs: () => cluster.nowMs, nowNs: () => ns++ },
    random: () => 0.5,
    sleep: async () => {},
    ...sharedServices({ onWrite: (_cidr, parts) => writes.push(parts) }),
  });
  const assign = (handle: string): Promise<AutoAssignResult> =>
    allocator.autoAssign(
      { count4: 1, count6: 0, handle, attributes: { node: NODE, handle }, owner: host(NODE), use: "Workload", mustBeNew: true },
      { mayBeOld: true },
    );
  await assign("first");
  cluster.calls.length = 0;
  writes.length = 0;
  return { cluster, allocator, writes, assign };
}

const handlesOf = (count: number): readonly string[] => Array.from({ length: count }, (_, index) => `h${index}`);

function addressesIn(results: readonly AutoAssignResult[]): readonly string[] {
  return results.flatMap(({ ipv4 }) => addressesOf(ipv4));
}

async function consistentHandles({ cluster }: Agent): Promise<readonly string[]> {
  const block = await cluster.block("10.0.0.0/26");
  const held = block?.allocations.flatMap((index) => (index === null ? [] : (block.attributes[index]?.handleId ?? []))) ?? [];
  expect(Object.keys(await cluster.handles()).sort()).toEqual([...held].sort());
  return held.toSorted();
}

describe("Many operations that write one block", () => {
  it("A-I06: share a write, whichever arrive while another is under way; no address twice", async () => {
    const agent = await agentWithBlock();

    const results = await Promise.all(handlesOf(40).map(agent.assign));

    expect(new Set(addressesIn(results)).size).toBe(40);
    expect(agent.writes.reduce((sum, parts) => sum + parts, 0)).toBe(40);
    expect(agent.writes.length).toBeLessThanOrEqual(4);
    expect(agent.cluster.calls.filter((call) => call === BLOCK)).toHaveLength(agent.writes.length);
    expect(await consistentHandles(agent)).toHaveLength(41);
  });

  it("release in a shared write too, and leave what they have released to the next one", async () => {
    const agent = await agentWithBlock();
    const handles = handlesOf(63);
    await Promise.all(handles.map(agent.assign));
    agent.writes.length = 0;

    await Promise.all(handles.map((handle) => agent.allocator.releaseByHandle(handle)));

    expect(agent.writes.length).toBeLessThanOrEqual(4);
    expect(await consistentHandles(agent)).toEqual(["first"]);
  });

  it("A-I07: each keep what they were granted when the answer to their write is lost", async () => {
    const agent = await agentWithBlock();
    let isLost = false;
    agent.cluster.fateOf = (call) => {
      if (call !== BLOCK || isLost) return "proceed";
      isLost = true;
      return "answer-lost";
    };

    const results = await Promise.all(handlesOf(20).map(agent.assign));

    expect(isLost).toBe(true);
    expect(new Set(addressesIn(results)).size).toBe(20);
    expect(await consistentHandles(agent)).toHaveLength(21);
  });

  it("A-I08: begin again when another process has written the block meanwhile", async () => {
    const agent = await agentWithBlock();
    agent.cluster.before(BLOCK, async () => {
      const stored = await agent.cluster.datastore.blocks.get("10.0.0.0/26");
      if (stored !== undefined) await agent.cluster.datastore.blocks.update("10.0.0.0/26", { ...stored.value }, stored.revision);
    });

    const results = await Promise.all(handlesOf(20).map(agent.assign));

    expect(new Set(addressesIn(results)).size).toBe(20);
    expect(await consistentHandles(agent)).toHaveLength(21);
  });

  it("A-I10: go on without the one whose handle cannot be written", async () => {
    const agent = await agentWithBlock();
    agent.cluster.fateOf = (call) => (call === "create handle h7" ? "unavailable" : "proceed");

    const results = await Promise.all(handlesOf(20).map(agent.assign));

    expect(results.map(({ ipv4 }) => ipv4?.error === undefined)).toEqual(handlesOf(20).map((handle) => handle !== "h7"));
    expect(new Set(addressesIn(results)).size).toBe(19);
    expect(await consistentHandles(agent)).not.toContain("h7");
  });
});
