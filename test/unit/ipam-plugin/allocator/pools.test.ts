import { choosePools, resolvePools } from "../../../../ipam-plugin/allocator/pools.ts";
import type { PoolUse } from "../../../../ipam-plugin/allocator/types.ts";
import { Cluster, type ClusterSetup, host } from "../../../support/cluster.ts";

interface Wish {
  readonly family?: 4 | 6;
  readonly requested?: readonly string[];
  readonly use?: PoolUse;
  readonly node?: string;
  readonly namespace?: string;
}

/** CIDRs in the order to try them, or the message of the refusal. */
async function choose(setup: ClusterSetup, wish: Wish = {}): Promise<readonly string[] | string> {
  const { allocator } = await Cluster.create(setup);
  const node = wish.node ?? "node-a";
  const operation = allocator.begin({ owner: host(node), namespace: wish.namespace });
  try {
    const pools = await choosePools(operation, {
      family: wish.family ?? 4,
      requested: wish.requested ?? [],
      use: wish.use ?? "Workload",
      host: node,
    });
    return pools.map(({ cidr }) => cidr);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const NO_POOL = "cannot find a qualified ippool";
const NOT_SELECTED = "no configured Calico pools for node node-a";
const A = "10.1.0.0/24";
const B = "10.2.0.0/24";
const C6 = "fd00::/64";

describe("the choice of pools", () => {
  it.each<[string, ClusterSetup, Wish, readonly string[] | string]>([
    ["every pool of the family, by name", { pools: { [B]: {}, [A]: {}, [C6]: {} } }, {}, [B, A]],
    ["the other family's only", { pools: { [A]: {}, [C6]: {} } }, { family: 6 }, [C6]],
    ["an error without any pool", { pools: {} }, {}, NO_POOL],
    ["an error without a pool of the family", { pools: { [C6]: {} } }, {}, NO_POOL],
    ["no disabled pool", { pools: { [A]: { disabled: true }, [B]: {} } }, {}, [B]],
    ["an error when all are disabled", { pools: { [A]: { disabled: true } } }, {}, NO_POOL],
    ["no pool that is being deleted", { pools: { [A]: { deleting: true }, [B]: {} } }, {}, [B]],
    ["no pool that is judged not allocatable", { pools: { [A]: { allocatable: false }, [B]: { allocatable: true } } }, {}, [B]],
    ["no pool whose CIDR cannot be read", { pools: { rubbish: {}, [B]: {} } }, {}, [B]],
    ["a pool with host bits by its masked CIDR", { pools: { "10.1.0.1/24": {} } }, { requested: [A] }, [A]],
    ["no Manual pool", { pools: { [A]: { assignmentMode: "Manual" }, [B]: {} } }, {}, [B]],
    ["a Manual pool on request", { pools: { [A]: { assignmentMode: "Manual" }, [B]: {} } }, { requested: [A] }, [A]],
    ["an error when all are Manual", { pools: { [A]: { assignmentMode: "Manual" } } }, {}, NOT_SELECTED],
    ["the order of the request", { pools: { [A]: {}, [B]: {} } }, { requested: [B, A] }, [B, A]],
    ["a pool once that is requested twice", { pools: { [A]: {}, [B]: {} } }, { requested: [B, B] }, [B]],
    [
      "an error for an unknown pool behind a known one",
      { pools: { [A]: {} } },
      { requested: [A, B] },
      "the given pool (10.2.0.0/24) does not exist, or is not enabled",
    ],
    [
      "an error for a part of a pool",
      { pools: { [A]: {} } },
      { requested: ["10.1.0.0/25"] },
      "the given pool (10.1.0.0/25) does not exist, or is not enabled",
    ],
    [
      "an error for a disabled pool on request",
      { pools: { [A]: { disabled: true }, [B]: {} } },
      { requested: [A] },
      "the given pool (10.1.0.0/24) does not exist, or is not enabled",
    ],
    ["the lack of enabled pools before the unknown one", { pools: { [A]: { disabled: true } } }, { requested: [A] }, NO_POOL],
    [
      "an error for a pool of the other family",
      { pools: { [A]: {}, [C6]: {} } },
      { requested: [C6] },
      "provided IPv4 IPPools list contains one or more IPv6 IPPools: fd00::/64",
    ],
    [
      "an error for an IPv4 pool among IPv6 ones",
      { pools: { [A]: {}, [C6]: {} } },
      { family: 6, requested: [C6, A] },
      "provided IPv6 IPPools list contains one or more IPv4 IPPools: 10.1.0.0/24",
    ],
  ])("gives %s", async (_title, setup, wish, expected) => {
    expect(await choose(setup, wish)).toEqual(expected);
  });

  describe("by node", () => {
    const nodes = { "node-a": { zone: "x" }, "node-b": { zone: "y" } };
    const pools = { [A]: { nodeSelector: "zone == 'x'" }, [B]: { nodeSelector: "zone == 'y'" } };

    it.each<[string, Wish, readonly string[] | string]>([
      ["the pool that selects it", {}, [A]],
      ["another pool for another node", { node: "node-b" }, [B]],
      ["a pool that does not select it, on request", { requested: [B] }, [B]],
      ["an error when none selects it", { node: "node-c" }, "no configured Calico pools for node node-c"],
    ])("gives %s", async (_title, wish, expected) => {
      expect(await choose({ pools, nodes }, wish)).toEqual(expected);
    });

    it("takes a node that the store does not know for one without labels", async () => {
      expect(await choose({ pools: { [A]: { nodeSelector: "!has(zone)" } } })).toEqual([A]);
    });

    it("gives an error for a selector that cannot be read, naming the pool and the place", async () => {
      expect(await choose({ pools: { [A]: { nodeSelector: "zone ==" } } })).toBe(
        'nodeSelector of pool "p0": selector "zone ==", position 8: expected string',
      );
    });

    it("does not read the selector of a disabled pool, nor of any pool when pools are requested", async () => {
      const bad = { nodeSelector: "zone ==" };
      expect(await choose({ pools: { [A]: { ...bad, disabled: true }, [B]: {} } })).toEqual([B]);
      expect(await choose({ pools: { [A]: bad, [B]: {} } }, { requested: [A] })).toEqual([A]);
    });
  });

  describe("by namespace", () => {
    const namespaces = { shop: { team: "shop" }, plain: {} };
    const pools = { [A]: { namespaceSelector: "team == 'shop'" }, [B]: { namespaceSelector: "team != 'shop'" } };

    it.each<[string, ClusterSetup["pools"], Wish, readonly string[] | string]>([
      ["the pool that selects it", pools, { namespace: "shop" }, [A]],
      ["the pool that excludes the others", pools, { namespace: "plain" }, [B]],
      ["what selects a namespace without labels when there is none", pools, {}, [B]],
      ["what selects a namespace without labels when it is unknown", pools, { namespace: "nowhere" }, [B]],
      ["a pool without namespace selector for everybody", { [A]: {} }, { namespace: "plain" }, [A]],
      ["a pool that does not select it, on request", pools, { namespace: "plain", requested: [A] }, [A]],
      ["an error when none selects it", { [A]: { namespaceSelector: "has(team)" } }, { namespace: "plain" }, NOT_SELECTED],
      [
        "both conditions together",
        { [A]: { namespaceSelector: "team == 'shop'", nodeSelector: "zone == 'x'" }, [B]: { namespaceSelector: "team == 'shop'" } },
        { namespace: "shop" },
        [B],
      ],
      [
        "an error for a selector that cannot be read",
        { [A]: { namespaceSelector: "team in" } },
        { namespace: "shop" },
        'namespaceSelector of pool "p0": selector "team in", position 8: expected set literal',
      ],
    ])("gives %s", async (_title, poolSetup, wish, expected) => {
      expect(await choose({ pools: poolSetup ?? {}, namespaces }, wish)).toEqual(expected);
    });
  });

  describe("by use", () => {
    it.each<[string, ClusterSetup["pools"], Wish, readonly string[] | string]>([
      ["a pool that allows it", { [A]: { allowedUses: ["Tunnel"] }, [B]: { allowedUses: ["Workload"] } }, {}, [B]],
      ["a pool with an empty list, which is the default", { [A]: { allowedUses: [] } }, {}, [A]],
      [
        "no pool with an empty list to load balancers",
        { [A]: { allowedUses: [] } },
        { use: "LoadBalancer" },
        expect.stringContaining("(LoadBalancer)"),
      ],
      [
        "an error that names the use",
        { [A]: { allowedUses: ["Tunnel"] } },
        {},
        "cannot find a qualified ippool, no pools match the required use (Workload)",
      ],
      [
        "an error even when the pool is requested",
        { [A]: { allowedUses: ["Tunnel"] } },
        { requested: [A] },
        "cannot find a qualified ippool, no pools match the required use (Workload)",
      ],
    ])("gives %s", async (_title, pools, wish, expected) => {
      expect(await choose({ pools: pools ?? {} }, wish)).toEqual(expected);
    });
  });

  it("says beside Calico's words which pools there are, or of which family there is none", async () => {
    const { allocator } = await Cluster.create({ pools: { [A]: { allowedUses: ["Tunnel"] }, [B]: { allowedUses: ["Tunnel"] } } });
    const refused = (family: 4 | 6) =>
      choosePools(allocator.begin({ owner: host("node-a") }), { family, use: "Workload", host: "node-a", requested: [] });
    await expect(refused(4)).rejects.toMatchObject({ word: "pool-use", details: `allowedUses of p0 (${A}), p1 (${B})` });
    await expect(refused(6)).rejects.toMatchObject({ word: "pool-none", details: "no IPv6 pool is enabled" });
  });
});

describe("entries of a network configuration", () => {
  it.each<[string, readonly string[], 4 | 6, readonly string[] | string]>([
    ["a CIDR", [A], 4, [A]],
    ["a CIDR with host bits", ["10.1.0.9/24"], 4, [A]],
    ["IPv6 in long spelling", ["FD00:0::0/64"], 6, [C6]],
    ["a name", ["p1"], 4, [B]],
    ["a CIDR that is no pool, to be refused later", ["10.9.0.0/24"], 4, ["10.9.0.0/24"]],
    ["a bad CIDR", ["10.40.0.0/99"], 4, 'error parsing pool "10.40.0.0/99": invalid CIDR address: 10.40.0.0/99'],
    ["an unknown name", [A, "nope"], 4, 'error parsing pool "nope": invalid CIDR address: nope'],
    ["the name of a pool of the other family", ["p2"], 4, '"fd00::" isn\'t a IPv4 address'],
    ["a CIDR of the other family", [A], 6, '"10.1.0.0" isn\'t a IPv6 address'],
  ])("resolve %s", async (_title, entries, family, expected) => {
    const { allocator } = await Cluster.create({ pools: { [A]: {}, [B]: {}, [C6]: {} } });
    const resolved = await resolvePools(allocator.begin(), entries, family).catch((error: Error) => error.message);
    expect(resolved).toEqual(expected);
  });

  it("need no look at the pools when all are CIDRs", async () => {
    const cluster = await Cluster.create();
    await resolvePools(cluster.allocator.begin(), [A, B], 4);
    expect(cluster.calls).toEqual([]);
  });
});
