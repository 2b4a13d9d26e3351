/** The next block of a node, claimed by a process that lives on before the last one is full (A§11.7), on the datastore in memory. */

import { addressesOf, host } from "../../../support/cluster.ts";
import { ClusterAgent, NODE } from "../../../support/cluster-agent.ts";
import { fresh } from "../../../support/fixtures.ts";
import { emptyBlock } from "../../../support/samples.ts";

/** Sixteen addresses a block: the next one is claimed when fewer than four are left. */
const BLOCKS = { blockSize: 28 };

const agent = fresh(() => ClusterAgent.create({ pools: { "10.0.0.0/24": BLOCKS } }));

/** One after the other; afterwards whatever they have set off has ended. */
async function assign(by: ClusterAgent, ...handles: readonly string[]): Promise<readonly string[]> {
  const assigned: string[] = [];
  for (const handle of handles) {
    assigned.push(...addressesOf((await by.assign(handle, { mustBeNew: true })).ipv4));
    // The store in memory answers in microtasks.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return assigned;
}

async function claimed(): Promise<number> {
  return (await agent.cluster.affinities()).filter((affinity) => affinity.startsWith(NODE) && affinity.endsWith(" confirmed")).length;
}

const handles = (from: number, to: number): readonly string[] => Array.from({ length: to - from }, (_, index) => `h${from + index}`);

describe("A process that lives on", () => {
  it("claims the next block when few addresses are left, so that the ADD that needs it writes a handle and a block alone", async () => {
    await assign(agent, ...handles(0, 12));
    expect(await claimed()).toBe(1);

    await assign(agent, "h12");
    expect(await claimed()).toBe(2);

    await assign(agent, ...handles(13, 16));
    agent.cluster.calls.length = 0;
    await assign(agent, "h16");
    const writes = agent.cluster.calls.filter((call) => /^(create|update|delete)/.test(call));
    expect(writes).toEqual(["create handle h16", expect.stringMatching(/^update block /)]);
    expect(await claimed()).toBe(2);
  });

  it("claims none for free addresses that lie in several blocks", async () => {
    await assign(agent, ...handles(0, 20));
    await agent.cluster.allocator.releaseByHandle("h0");
    await agent.cluster.allocator.releaseByHandle("h1");
    expect(await claimed()).toBe(2);
    await assign(agent, "again", "and-again");
    expect(await claimed()).toBe(2);
  });

  it.each([
    ["maxBlocksPerHost allows no more", { maxBlocksPerHost: 1 }],
    ["blocks are not claimed without being told", { autoAllocateBlocks: false }],
  ])("claims none where %s, and does not ask again at every ADD", async (_, configuration) => {
    await assign(agent, "first");
    await agent.cluster.configure(configuration);
    await assign(agent, ...handles(0, 12));
    agent.cluster.calls.length = 0;
    await assign(agent, "h12");
    await assign(agent, "h13");

    expect(await claimed()).toBe(1);
    expect(agent.cluster.calls.filter((call) => call.startsWith("list affinity"))).toHaveLength(2);
  });

  it("takes no empty block from another node", async () => {
    const small = await ClusterAgent.create({ pools: { "10.0.0.0/27": BLOCKS } });
    await small.cluster.assign("node-b", "other");
    await small.cluster.allocator.releaseByHandle("other");
    small.cluster.nowMs += 3_600_000;

    await assign(small, ...handles(0, 16));
    expect(await small.cluster.affinities()).toContainEqual(expect.stringMatching(/^node-b .* confirmed$/));

    await assign(small, "h16");
    expect(await small.cluster.affinities()).toEqual([
      expect.stringMatching(/^node-a .* confirmed$/),
      expect.stringMatching(/^node-a .* confirmed$/),
    ]);
  });

  it("G18: looks through a full pool less and less often", async () => {
    const others = [1, 2, 3, 4, 5, 6, 7].map((index) => `10.0.0.${index * 16}/28`);
    const taken = { allocations: Array.from({ length: 16 }, () => 0), unallocated: [], attributes: [{ handleId: "z" }] };
    const full = await ClusterAgent.create({
      pools: { "10.0.0.0/25": BLOCKS },
      blocks: others.map((cidr) => emptyBlock(cidr, 16, { affinity: host("node-b"), ...taken })),
    });
    await assign(full, ...handles(0, 12));
    const lists = () => full.cluster.calls.filter((call) => call === "list block").length;
    const before = lists();
    const looks: number[] = [];
    for (const handle of handles(12, 16)) {
      await assign(full, handle);
      looks.push(lists() - before);
      full.cluster.nowMs += 60_000;
    }
    expect(looks).toEqual([1, 2, 2, 3]);
  });

  it("claims past places that blocks of another size have addresses of", async () => {
    const inside = await ClusterAgent.create({
      pools: { "10.0.0.0/25": BLOCKS },
      blocks: [0, 1, 2, 3, 4, 5].map((index) => emptyBlock(`10.0.0.${index * 16 + 8}/30`, 4, { affinity: host("node-b") })),
    });
    await assign(inside, ...handles(0, 12));
    await Bun.sleep(0);
    await assign(inside, "h12");
    const own = (await inside.cluster.affinities()).filter((affinity) => affinity.startsWith("node-a"));
    expect(own.map((affinity) => affinity.split(" ")[1]).sort()).toEqual(["10.0.0.112/28", "10.0.0.96/28"]);
    expect(inside.cluster.logged).toEqual([]);
  });

  it("fails no ADD when the claim fails, says why, and tries again a minute later", async () => {
    await assign(agent, ...handles(0, 12));
    agent.cluster.fateOf = (call) => (call.startsWith("create affinity") ? "unavailable" : "proceed");

    expect(await assign(agent, "h12", "h13")).toHaveLength(2);
    expect(agent.cluster.logged).toEqual([expect.stringContaining("no block was claimed ahead of need")]);

    agent.cluster.fateOf = undefined;
    agent.cluster.nowMs += 60_000;
    await assign(agent, "h14");
    expect(await claimed()).toBe(2);
  });

  it("has ADDs that come in the middle of a claim wait for it instead of claiming another block", async () => {
    await assign(agent, ...handles(0, 12));
    const { promise, resolve } = Promise.withResolvers<void>();
    agent.cluster.fateOf = async (call): Promise<"proceed"> => {
      if (call.startsWith("create block")) await promise;
      return "proceed";
    };
    const assigned = Promise.all(handles(12, 24).map((handle) => assign(agent, handle)));
    await new Promise((done) => setImmediate(done));
    resolve();

    expect(new Set((await assigned).flat()).size).toBe(12);
    expect(await claimed()).toBe(2);
    expect(agent.cluster.calls.filter((call) => call.startsWith("create affinity"))).toHaveLength(2);
  });
});
