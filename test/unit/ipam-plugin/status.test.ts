import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { IpamNode } from "../../support/ipam-node.ts";
import { samplePool } from "../../support/samples.ts";

const SMALL = { cidr: "10.40.0.0/30", blockSize: 30 };

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
    await using node = new IpamNode({ ipam: { pools: [SMALL] } });
    expect(await statusOf(node)).toBe("ok");
    expect(await node.datastore.pools.list()).toEqual([]);
  });

  it("is well while an address is left, and names the pool that is full", async () => {
    await using node = new IpamNode({ ipam: { pools: [SMALL] } });
    for (const container of ["c1", "c2", "c3", "c4"]) {
      expect(await statusOf(node)).toBe("ok");
      await node.add({ container });
    }
    expect(await statusOf(node)).toBe("IPv4: no address is left in 10.40.0.0/30");
    await node.del({ container: "c3" });
    expect(await statusOf(node)).toBe("ok");
  });

  it("wants room in every family that is on", async () => {
    await using node = new IpamNode({ ipam: { pools: [SMALL], assign_ipv6: "true" } });
    expect(await statusOf(node)).toBe("IPv6: no pool for workloads is enabled");
    expect(await statusOf(node, { ipam: { assign_ipv6: "false" } })).toBe("ok");
  });

  it("looks at the pools that the configuration names, and at no others", async () => {
    await using node = new IpamNode({ ipam: { pools: [SMALL, { cidr: "10.41.0.0/24", name: "second" }] } });
    for (const container of ["c1", "c2", "c3", "c4"]) await node.add({ container, ipam: { ipv4_pools: ["10.40.0.0/30"] } });
    expect(await statusOf(node, { ipam: { ipv4_pools: ["10.40.0.0/30"] } })).toBe("IPv4: no address is left in 10.40.0.0/30");
    expect(await statusOf(node, { ipam: { ipv4_pools: ["second"] } })).toBe("ok");
    expect(await statusOf(node, { ipam: { ipv4_pools: ["nope"] } })).toBe("IPv4: no pool for workloads is enabled among nope");
  });

  it.each([
    ["disabled", { disabled: true }],
    ["going", { deleting: true }],
    ["not allocatable", { allocatable: false }],
    ["for tunnels only", { allowedUses: ["Tunnel"] }],
    ["for explicit requests only", { assignmentMode: "Manual" as const }],
  ])("does not count a pool that is %s", async (_what, changes) => {
    await using node = new IpamNode({});
    await node.datastore.pools.create("p", samplePool("p", "10.40.0.0/24", changes));
    expect(await statusOf(node)).toBe("IPv4: no pool for workloads is enabled");
  });

  it("names the pool whose configuration contradicts the datastore, and the key when there is no pool", async () => {
    await using node = new IpamNode({ ipam: { pools: [SMALL] } });
    expect(await statusOf(node, { ipam: { pools: [] } })).toMatch(/pools: .*ipam\.pools is not set/);
    await node.add();
    expect(await statusOf(node, { ipam: { pools: [{ cidr: "10.40.0.0/24" }] } })).toMatch(/pools: .*10\.40\.0\.0\/24.*10\.40\.0\.0\/30/);
  });

  it("says that the datastore does not answer", async () => {
    await using node = new IpamNode({ ipam: { pools: [SMALL] } });
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
