/** The next block of a node, claimed by a process that lives on before the last one is full (A§11.7), on the datastore in memory. */

import { sharedServices } from "../../../../agent/addresses/blocks-parts.ts";
import { cachedDatastore } from "../../../../agent/addresses/cached-datastore.ts";
import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import type { AutoAssignResult } from "../../../../ipam-plugin/allocator/types.ts";
import { addressesOf, Cluster, type ClusterSetup, host } from "../../../support/cluster.ts";
import { emptyBlock } from "../../../support/samples.ts";

const NODE = "node-a";
/** Sixteen addresses a block: the next one is claimed when fewer than four are left. */
const POOL = { "10.0.0.0/24": { blockSize: 28 } };

class Agent {
  readonly cluster: Cluster;
  readonly #allocator: Allocator;

  private constructor(cluster: Cluster) {
    this.cluster = cluster;
    this.#allocator = new Allocator({
      datastore: cachedDatastore(cluster.observed),
      clock: { nowMs: () => cluster.nowMs, nowNs: () => BigInt(cluster.nowMs) * 1_000_000n },
      random: () => 0.5,
      sleep: async () => {},
      log: (message) => cluster.logged.push(message),
      ...sharedServices(),
    });
  }

  static async create(setup: ClusterSetup): Promise<Agent> {
    return new Agent(await Cluster.create(setup));
  }

  /** One after the other; afterwards whatever they have set off has ended. */
  async assign(...handles: readonly string[]): Promise<readonly string[]> {
    const assigned: string[] = [];
    for (const handle of handles) {
      assigned.push(...addressesOf((await this.#autoAssign(handle)).ipv4));
      // The store in memory answers in microtasks.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return assigned;
  }

  async claimed(): Promise<number> {
    return (await this.cluster.affinities()).filter((affinity) => affinity.startsWith(NODE) && affinity.endsWith(" confirmed")).length;
  }

  #autoAssign(handle: string): Promise<AutoAssignResult> {
    return this.#allocator.autoAssign(
      { count4: 1, count6: 0, handle, attributes: { node: NODE, handle }, owner: host(NODE), use: "Workload", mustBeNew: true },
      { mayBeOld: true },
    );
  }
}

const handles = (from: number, to: number): readonly string[] => Array.from({ length: to - from }, (_, index) => `h${from + index}`);

describe("A process that lives on", () => {
  it("claims the next block when few addresses are left, so that the ADD that needs it writes a handle and a block alone", async () => {
    const agent = await Agent.create({ pools: POOL });
    await agent.assign(...handles(0, 12));
    expect(await agent.claimed()).toBe(1);

    await agent.assign("h12");
    expect(await agent.claimed()).toBe(2);

    await agent.assign(...handles(13, 16));
    agent.cluster.calls.length = 0;
    await agent.assign("h16");
    const writes = agent.cluster.calls.filter((call) => /^(create|update|delete)/.test(call));
    expect(writes).toEqual(["create handle h16", expect.stringMatching(/^update block /)]);
    expect(await agent.claimed()).toBe(2);
  });

  it("claims none for free addresses that lie in several blocks", async () => {
    const agent = await Agent.create({ pools: POOL });
    await agent.assign(...handles(0, 20));
    await agent.cluster.allocator.releaseByHandle("h0");
    await agent.cluster.allocator.releaseByHandle("h1");
    expect(await agent.claimed()).toBe(2);
    await agent.assign("again", "and-again");
    expect(await agent.claimed()).toBe(2);
  });

  it.each([
    ["maxBlocksPerHost allows no more", { maxBlocksPerHost: 1 }],
    ["blocks are not claimed without being told", { autoAllocateBlocks: false }],
  ])("claims none where %s, and does not ask again at every ADD", async (_, configuration) => {
    const agent = await Agent.create({ pools: POOL });
    await agent.assign("first");
    await agent.cluster.configure(configuration);
    await agent.assign(...handles(0, 12));
    agent.cluster.calls.length = 0;
    await agent.assign("h12");
    await agent.assign("h13");

    expect(await agent.claimed()).toBe(1);
    expect(agent.cluster.calls.filter((call) => call.startsWith("list affinity"))).toHaveLength(2);
  });

  it("takes no empty block from another node", async () => {
    const agent = await Agent.create({ pools: { "10.0.0.0/27": { blockSize: 28 } } });
    await agent.cluster.assign("node-b", "other");
    await agent.cluster.allocator.releaseByHandle("other");
    agent.cluster.nowMs += 3_600_000;

    await agent.assign(...handles(0, 16));
    expect(await agent.cluster.affinities()).toContainEqual(expect.stringMatching(/^node-b .* confirmed$/));

    await agent.assign("h16");
    expect(await agent.cluster.affinities()).toEqual([
      expect.stringMatching(/^node-a .* confirmed$/),
      expect.stringMatching(/^node-a .* confirmed$/),
    ]);
  });

  it("G18: looks through a full pool less and less often", async () => {
    const others = [1, 2, 3, 4, 5, 6, 7].map((index) => `10.0.0.${index * 16}/28`);
    const full = { allocations: Array.from({ length: 16 }, () => 0), unallocated: [], attributes: [{ handleId: "z" }] };
    const agent = await Agent.create({
      pools: { "10.0.0.0/25": { blockSize: 28 } },
      blocks: others.map((cidr) => emptyBlock(cidr, 16, { affinity: host("node-b"), ...full })),
    });
    await agent.assign(...handles(0, 12));
    const lists = () => agent.cluster.calls.filter((call) => call === "list block").length;
    const before = lists();
    const looks: number[] = [];
    for (const handle of handles(12, 16)) {
      await agent.assign(handle);
      looks.push(lists() - before);
      agent.cluster.nowMs += 60_000;
    }
    expect(looks).toEqual([1, 2, 2, 3]);
  });

  it("fails no ADD when the claim fails, says why, and tries again a minute later", async () => {
    const agent = await Agent.create({ pools: POOL });
    await agent.assign(...handles(0, 12));
    agent.cluster.fateOf = (call) => (call.startsWith("create affinity") ? "unavailable" : "proceed");

    expect(await agent.assign("h12", "h13")).toHaveLength(2);
    expect(agent.cluster.logged).toEqual([expect.stringContaining("no block was claimed ahead of need")]);

    agent.cluster.fateOf = undefined;
    agent.cluster.nowMs += 60_000;
    await agent.assign("h14");
    expect(await agent.claimed()).toBe(2);
  });

  it("has ADDs that come in the middle of a claim wait for it instead of claiming another block", async () => {
    const agent = await Agent.create({ pools: POOL });
    await agent.assign(...handles(0, 12));
    const { promise, resolve } = Promise.withResolvers<void>();
    agent.cluster.fateOf = async (call): Promise<"proceed"> => {
      if (call.startsWith("create block")) await promise;
      return "proceed";
    };
    const assigned = Promise.all(handles(12, 24).map((handle) => agent.assign(handle)));
    await new Promise((done) => setImmediate(done));
    resolve();

    expect(new Set((await assigned).flat()).size).toBe(12);
    expect(await agent.claimed()).toBe(2);
    expect(agent.cluster.calls.filter((call) => call.startsWith("create affinity"))).toHaveLength(2);
  });
});
