/** What an ADD waits for in a cluster that somebody has just made; the waiting itself, with its minutes in the test's hand. */
import { NewCluster } from "../../../../agent/attachments/new-cluster.ts";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { KUBERNETES_TRAITS, LOCAL_TRAITS, type Traits } from "../../../../lib/datastore/datastore.ts";
import type { JsonObject } from "../../../../lib/json/value.ts";
import { Health } from "../../../../lib/resident/health.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";
import { type Call, MemoryStore } from "../../../support/memory-datastore.ts";
import { samplePool } from "../../../support/samples.ts";

const LIMIT_MS = 30_000;
const BOTH = { type: "tortie-ipam", assign_ipv4: "true", assign_ipv6: "true" };

function world(limitMs = LIMIT_MS) {
  const calls: Call[] = [];
  let isDown = false;
  const datastore = new MemoryStore().connect("agent", (call) => {
    calls.push(call);
    return isDown ? "unavailable" : "proceed";
  });
  const clock = new FakeClock();
  const health = new Health(() => "ready", clock);
  const cluster = new NewCluster({ limitMs, clock, health });
  const lines: string[] = [];
  const host = { datastore: async () => datastore };
  return {
    calls,
    clock,
    lines,
    waits: () => health.waits,
    information: () => datastore.clusterInformation.create("default", { datastoreReady: true }),
    pool: (name: string, cidr: string) => datastore.pools.create(name, samplePool(name, cidr)),
    fail: () => {
      isDown = true;
    },
    add(ipam: JsonObject = { type: "tortie-ipam" }, traits: Traits = KUBERNETES_TRAITS) {
      const ending = new AbortController();
      const call = { config: decodeNetworkConfig({ name: "net1", ipam }), traits };
      let isOver = false;
      void cluster.untilMade({ call, host, log: { info: (line) => lines.push(line) } }, ending.signal).then(() => {
        isOver = true;
      });
      return { isOver: () => isOver, abort: () => ending.abort() };
    },
  };
}

describe("an ADD in a new cluster", () => {
  it("waits for ClusterInformation and a pool, and says for what", async () => {
    const { add, clock, waits, lines, information, pool } = world();
    const { isOver } = add();
    await clock.advance(1000);
    expect(isOver()).toBe(false);
    expect(waits()).toEqual([expect.stringMatching(/^ClusterInformation default: tortie-controller makes it/)]);
    expect(lines).toEqual(["waits up to 30 s for what a new cluster has not yet: ClusterInformation default, an IPv4 pool (IPPool)"]);

    await information();
    await clock.advance(1000);
    expect(isOver()).toBe(false);
    await pool("six", "fd00::/64");
    await clock.advance(1000);
    expect(isOver()).toBe(false);
    await pool("four", "10.0.0.0/24");
    await clock.advance(1000);
    expect(isOver()).toBe(true);
    expect(waits()).toEqual([]);
  });

  it("needs a pool of each family that its configuration switches on, and none where it names pools or has other addresses", async () => {
    const { add, clock, information, pool } = world();
    await information();
    const [dual, named, elsewhere] = [add(BOTH), add({ type: "tortie-ipam", ipv4_pools: ["x"] }), add({ type: "host-local" })];
    await clock.advance(1000);
    expect([dual, named, elsewhere].map(({ isOver }) => isOver())).toEqual([false, true, true]);
    await pool("four", "10.0.0.0/24");
    await clock.advance(1000);
    expect(dual.isOver()).toBe(false);
    await pool("six", "fd00::/64");
    await clock.advance(1000);
    expect(dual.isOver()).toBe(true);
  });

  it("goes on after the limit, and when its caller leaves", async () => {
    const { add, clock, waits } = world();
    const [patient, leaving] = [add(), add()];
    await clock.advance(5000);
    leaving.abort();
    await settled();
    expect([patient.isOver(), leaving.isOver()]).toEqual([false, true]);
    await clock.advance(LIMIT_MS - 5000);
    expect(patient.isOver()).toBe(true);
    expect(waits()).toEqual([]);
  });

  it("shares its looks with the others, and asks nothing once everything was there", async () => {
    const { add, calls, clock, information, pool } = world();
    const burst = Array.from({ length: 20 }, () => add());
    await settled();
    expect(calls.filter(({ operation }) => operation === "list")).toHaveLength(1);
    await Promise.all([information(), pool("four", "10.0.0.0/24")]);
    await clock.advance(1000);
    expect(burst.every(({ isOver }) => isOver())).toBe(true);
    const before = calls.length;
    const later = add();
    await settled();
    expect([later.isOver(), calls.length]).toEqual([true, before]);
  });

  it("waits for a datastore that does not answer as for one that is empty", async () => {
    const { add, clock, fail } = world();
    fail();
    const { isOver } = add();
    await clock.advance(LIMIT_MS - 1000);
    expect(isOver()).toBe(false);
    await clock.advance(1000);
    expect(isOver()).toBe(true);
  });

  it("does not wait where the option says 0, nor without a cluster", async () => {
    const { add } = world(0);
    const alone = world().add({ type: "tortie-ipam" }, LOCAL_TRAITS);
    const { isOver } = add();
    await settled();
    expect([isOver(), alone.isOver()]).toEqual([true, true]);
  });
});
