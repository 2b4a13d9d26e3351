/** Grants and releases of one block by many operations of one process (A§11.7), on the datastore in memory. */

import type { AutoAssignResult } from "../../../../ipam-plugin/allocator/types.ts";
import { addressesOf } from "../../../support/cluster.ts";
import { ClusterAgent } from "../../../support/cluster-agent.ts";
import { fresh } from "../../../support/fixtures.ts";

const BLOCK = "10.0.0.0/26";
const UPDATE = "update block 10-0-0-0-26";

const agent = fresh(() => ClusterAgent.create({ pools: { [BLOCK]: { blockSize: 26 } } }));
const assign = (handle: string) => agent.assign(handle, { mustBeNew: true });

beforeEach(async () => {
  await assign("first");
  agent.cluster.calls.length = 0;
  agent.writes.length = 0;
});

const handlesOf = (count: number): readonly string[] => Array.from({ length: count }, (_, index) => `h${index}`);

function addressesIn(results: readonly AutoAssignResult[]): readonly string[] {
  return results.flatMap(({ ipv4 }) => addressesOf(ipv4));
}

async function consistentHandles(): Promise<readonly string[]> {
  const held = (await agent.holders(BLOCK)).toSorted();
  expect(Object.keys(await agent.cluster.handles()).sort()).toEqual(held);
  return held;
}

describe("Many operations that write one block", () => {
  it("A-I06: share a write, whichever arrive while another is under way; no address twice", async () => {
    const results = await Promise.all(handlesOf(40).map(assign));

    expect(new Set(addressesIn(results)).size).toBe(40);
    expect(agent.writes.reduce((sum, { parts }) => sum + parts, 0)).toBe(40);
    expect(agent.writes.length).toBeLessThanOrEqual(4);
    expect(agent.cluster.calls.filter((call) => call === UPDATE)).toHaveLength(agent.writes.length);
    expect(await consistentHandles()).toHaveLength(41);
  });

  it("release in a shared write too, and leave what they have released to the next one", async () => {
    const handles = handlesOf(63);
    await Promise.all(handles.map(assign));
    agent.writes.length = 0;

    await Promise.all(handles.map((handle) => agent.allocator.releaseByHandle(handle)));

    expect(agent.writes.length).toBeLessThanOrEqual(4);
    expect(await consistentHandles()).toEqual(["first"]);
  });

  it("A-I07: each keep what they were granted when the answer to their write is lost", async () => {
    let isLost = false;
    agent.cluster.fateOf = (call) => {
      if (call !== UPDATE || isLost) return "proceed";
      isLost = true;
      return "answer-lost";
    };

    const results = await Promise.all(handlesOf(20).map(assign));

    expect(isLost).toBe(true);
    expect(new Set(addressesIn(results)).size).toBe(20);
    expect(await consistentHandles()).toHaveLength(21);
  });

  it("A-I08: begin again when another process has written the block meanwhile", async () => {
    agent.cluster.before(UPDATE, async () => {
      const stored = await agent.cluster.datastore.blocks.get(BLOCK);
      if (stored !== undefined) await agent.cluster.datastore.blocks.update(BLOCK, { ...stored.value }, stored.revision);
    });

    const results = await Promise.all(handlesOf(20).map(assign));

    expect(new Set(addressesIn(results)).size).toBe(20);
    expect(await consistentHandles()).toHaveLength(21);
  });

  it("A-I10: go on without the one whose handle cannot be written", async () => {
    agent.cluster.fateOf = (call) => (call === "create handle h7" ? "unavailable" : "proceed");

    const results = await Promise.all(handlesOf(20).map(assign));

    expect(results.map(({ ipv4 }) => ipv4?.error === undefined)).toEqual(handlesOf(20).map((handle) => handle !== "h7"));
    expect(new Set(addressesIn(results)).size).toBe(19);
    expect(await consistentHandles()).not.toContain("h7");
  });
});
