import { ipamFindings } from "../../../ipam-plugin/status.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { fresh } from "../../support/fixtures.ts";
import { IpamNode } from "../../support/ipam-node.ts";
import { samplePool } from "../../support/samples.ts";
import { ServerNode } from "./server-node.ts";

const SMALL = { cidr: "10.40.0.0/30", blockSize: 30 };
const node = fresh(() => new IpamNode({ ipam: { pools: [SMALL] } }));

async function statusOf(node: IpamNode, call: Parameters<IpamNode["status"]>[0] = {}): Promise<string> {
  try {
    await node.status(call);
    return "ok";
  } catch (error) {
    expect(error).toMatchObject({ word: "status-unavailable", code: 50 });
    return error instanceof Error ? error.message : String(error);
  }
}

describe("IPAM STATUS", () => {
  it("is well before the first ADD, and makes nothing", async () => {
    expect(await statusOf(node)).toBe("ok");
    expect(await node.datastore.pools.list()).toEqual([]);
  });

  it("F3: is well when no address is left, and says so in the log", async () => {
    for (const container of ["c1", "c2", "c3", "c4"]) {
      expect(await statusOf(node)).toBe("ok");
      await node.add({ container });
    }
    expect(node.logged).toEqual([]);
    expect(await statusOf(node)).toBe("ok");
    expect(node.logged).toEqual(["an ADD may fail: IPv4: no address is left in this node's blocks of 10.40.0.0/30"]);
  });

  it("wants a pool in every family that is on", async () => {
    await using node = new IpamNode({ ipam: { pools: [SMALL], assign_ipv6: "true" } });
    expect(await statusOf(node)).toBe("pools: IPv6: there is no such pool");
    expect(await statusOf(node, { ipam: { assign_ipv6: "false" } })).toBe("ok");
  });

  it("looks at the pools that the configuration names, and at no others", async () => {
    await using node = new IpamNode({ ipam: { pools: [SMALL, { cidr: "10.41.0.0/24", name: "second" }] } });
    expect(await statusOf(node, { ipam: { ipv4_pools: ["second"] } })).toBe("ok");
    expect(await statusOf(node, { ipam: { ipv4_pools: ["nope"] } })).toBe("pools: IPv4: there is no such pool: nope");
  });

  it.each([
    ["disabled", { disabled: true }],
    ["going", { deleting: true }],
    ["not allocatable", { allocatable: false }],
    ["for tunnels only", { allowedUses: ["Tunnel"] }],
    ["for explicit requests only", { assignmentMode: "Manual" as const }],
  ])("F3: is well, and says in the log, that the only pool is %s: somebody decided that", async (_what, changes) => {
    await using node = new IpamNode({});
    await node.datastore.pools.create("p", samplePool("p", "10.40.0.0/24", changes));
    expect(await statusOf(node)).toBe("ok");
    expect(node.logged).toEqual(["an ADD may fail: IPv4: no pool for workloads is enabled"]);
  });

  it("names the pool whose configuration contradicts the datastore, and the key when there is no pool", async () => {
    expect(await statusOf(node, { ipam: { pools: [] } })).toMatch(/pools: .*ipam\.pools is not set/);
    await node.add();
    expect(await statusOf(node, { ipam: { pools: [{ cidr: "10.40.0.0/24" }] } })).toMatch(/pools: .*10\.40\.0\.0\/24.*10\.40\.0\.0\/30/);
  });

  it("F3: is well on a cluster that does not answer, and on one whose pools are missing or full; no block is listed", async () => {
    using node = await ServerNode.create({ hasMemory: true, pools: { "10.0.0.0/30": { blockSize: 30 } } });
    for (const container of ["c1", "c2", "c3", "c4"]) await node.add({ container });
    for (const kind of ["pool", "affinity"] as const) node.cluster.memory.hear(kind);
    node.cluster.calls.length = 0;
    await node.status();
    const lists = node.cluster.calls.filter((call) => call.startsWith("list"));
    expect(lists.map((call) => call.split(" ").slice(0, 3).join(" "))).toEqual([
      "list pool old",
      "list affinity old",
      "list reservation old",
    ]);
    node.cluster.fateOf = () => "unavailable";
    await node.status();
  });

  it("says that the datastore does not answer", async () => {
    const list = async (): Promise<never> => {
      throw new DatastoreError("unavailable", "it is away");
    };
    await using broken = new IpamNode(
      { ipam: { pools: [SMALL] } },
      { datastore: { ...node.datastore, pools: { ...node.datastore.pools, list } } },
    );
    expect(await statusOf(broken)).toBe("datastore: it is away");
  });
});

describe("what is found by somebody who wants to know all", () => {
  const findings = async (node: IpamNode) => ipamFindings(node.call("STATUS"), node.ipam);

  it("F3: is a family without an address anywhere", async () => {
    expect(await findings(node)).toEqual([]);
    for (const container of ["c1", "c2", "c3", "c4"]) await node.add({ container });
    expect(await findings(node)).toEqual([{ kind: "exhausted", message: "IPv4: no address is left in 10.40.0.0/30" }]);
    await node.del({ container: "c3" });
    expect(await findings(node)).toEqual([]);
  });

  it("F3: is no exhaustion while one of two pools has room", async () => {
    const second = { cidr: "10.41.0.0/30", blockSize: 30, name: "second" };
    await using node = new IpamNode({ ipam: { pools: [SMALL, second] } });
    for (const container of ["c1", "c2", "c3", "c4"]) await node.add({ container });
    expect(await findings(node)).toEqual([]);
    for (const container of ["c5", "c6", "c7", "c8"]) await node.add({ container });
    expect(await findings(node)).toEqual([{ kind: "exhausted", message: "IPv4: no address is left in 10.40.0.0/30, 10.41.0.0/30" }]);
  });

  it("F3: is a pause, a missing pool, and a store that does not answer", async () => {
    using node = await ServerNode.create({ pools: {} });
    await node.cluster.datastore.clusterInformation.create("default", { datastoreReady: false });
    const config = decodeNetworkConfig({});
    expect((await ipamFindings({ config, nodeName: "node-a" }, node.ipam)).map(({ kind }) => kind)).toEqual(["paused", "pool-missing"]);
    node.cluster.fateOf = () => "unavailable";
    expect((await ipamFindings({ config, nodeName: "node-a" }, node.ipam)).map(({ kind }) => kind)).toEqual(["unreachable"]);
  });
});
