/** Many processes at once against a real API server, which is all that keeps their addresses apart: no two share a lock. */
import { overlaps } from "../../../lib/addresses/address.ts";
import { prefix } from "../../support/addresses.ts";
import { shared } from "../../support/fixtures.ts";
import { LEGACY, V3 } from "../../support/kubernetes/test-cluster.ts";
import { type Call, World } from "./world.ts";

const DUAL = { assign_ipv6: "true" };
const PROCESSES = 16;

const world = shared(World.create);

/** Of two nodes in turn, each process with a lock of its own; an answer may take long on a busy machine. */
function callOf(n: number): Call {
  return {
    container: `cid${n}`,
    ipam: DUAL,
    conf: { nodename: `node-${n % 2}`, ipam_lock_file: `${world.node.dir}/lock-${n}` },
    timeoutMs: 60_000,
  };
}

describe.each([LEGACY, V3] as const)("ADDs of two nodes at once, group %s", (group) => {
  it("get an address of each family each, from blocks that are claimed at the same moment, and leave nothing behind", async () => {
    // Four blocks in each family, which both nodes claim as they go.
    await world.reset(group, { p4: { cidr: "10.50.0.0/27", blockSize: 29 }, p6: { cidr: "fd00:50::/123", blockSize: 125 } });
    for (const name of ["node-0", "node-1"]) await world.cluster.createNode(name);
    const calls = Array.from({ length: PROCESSES }, (_, n) => callOf(n));
    const answers = await Promise.all(calls.map((call) => world.add(call)));
    expect(answers.filter(({ exit }) => exit !== 0)).toEqual([]);
    const addresses = answers.flatMap((answer) => answer.addresses.map((address) => address.replace(/\/\d+$/, "")));
    expect(new Set(addresses).size).toBe(2 * PROCESSES);
    for (const [n, { addresses: given }] of answers.entries()) {
      const held = (await world.heldBy(`net1.cid${n}`)).map(({ address }) => address);
      expect(held).toEqual(given.map((address) => address.replace(/\/\d+$/, "")));
    }
    const affinities = (await world.list("blockaffinities")).map(({ spec }) => [spec?.cidr, `host:${spec?.node}`, spec?.state]);
    const blocks = (await world.blocks()).map(({ cidr, affinity }) => [cidr, affinity, "confirmed"]);
    expect(affinities.toSorted()).toEqual(blocks.toSorted());

    const done = await Promise.all(calls.map((call) => world.del(call)));
    expect(done.filter(({ exit }) => exit !== 0)).toEqual([]);
    await world.expectNothingHeld();
  });
});

describe("ADDs of nodes that see different block sizes of a pool", () => {
  it("give no address twice, and leave no blocks that overlap", async () => {
    await world.reset(LEGACY, { p4: { cidr: "10.50.0.0/25", blockSize: 31 } });
    const nodes = ["node-0", "node-1", "node-2", "node-3"];
    for (const name of nodes) await world.cluster.createNode(name);
    const sizes = [31, 28, 30, 27, 31, 29];
    const given: string[] = [];
    for (const [round, blockSize] of sizes.entries()) {
      const call = (n: number): Call => ({
        container: `cid${round}-${n}`,
        conf: { nodename: nodes[n % nodes.length], ipam_lock_file: `${world.node.dir}/lock-${n}` },
        timeoutMs: 60_000,
      });
      // The size changes while the ADDs are under way.
      const [, ...answers] = await Promise.all([
        world.change("ippools", "p4", { blockSize }).then(() => undefined),
        ...Array.from({ length: 8 }, (_, n) => world.add(call(n))),
      ]);
      for (const answer of answers) if (answer?.exit === 0) given.push(...answer.addresses.map((one) => one.replace(/\/\d+$/, "")));
    }
    expect(given.length).toBeGreaterThan(30);
    expect(new Set(given).size).toBe(given.length);
    const blocks = (await world.blocks()).map(({ cidr }) => prefix(cidr));
    expect(new Set(blocks.map(({ length }) => length)).size).toBeGreaterThan(1);
    const pairs = blocks.flatMap((one, index) => blocks.slice(index + 1).filter((other) => overlaps(one, other)));
    expect(pairs).toEqual([]);
  });
});
