import { aggregate, type ExistingPool, type PoolFacts, planPools } from "../../../controller/judge/first-pools.ts";
import type { NodeView } from "../../../controller/view/cluster-view.ts";
import { formatPrefix, parseAddress, parsePrefix } from "../../../lib/addresses/address.ts";

function node(ranges: readonly string[], address?: string): NodeView {
  const parsed = address === undefined ? undefined : parseAddress(address);
  const rest = { labels: {}, resourceVersion: "1", isReady: true, network: undefined };
  return { ...rest, ranges, addresses: parsed === undefined ? [] : [parsed] };
}

function plan(facts: Partial<PoolFacts>) {
  return planPools({ family: 4, option: "auto", podSubnet: "", nodes: new Map(), pools: [], ...facts });
}

const ours = (name: string, cidr: string): ExistingPool => ({ name, cidr, isOurs: true });
const others = (name: string, cidr: string): ExistingPool => ({ name, cidr, isOurs: false });
const NODES = new Map([
  ["a", node(["10.244.0.0/24", "fd00:10:244::/64"], "192.168.1.1")],
  ["b", node(["10.244.1.0/24", "fd00:10:244:1::/64"], "192.168.1.2")],
  ["c", node(["10.244.5.0/24"], "192.168.1.3")],
]);

describe("the first pool", () => {
  it("is not made where the option says none", () => {
    expect(plan({ option: "none", podSubnet: "10.244.0.0/16", nodes: NODES })).toEqual({ pools: [] });
  });

  it("has the option's range, without host bits", () => {
    expect(plan({ option: "10.1.2.3/16", podSubnet: "10.244.0.0/16" }).pools).toEqual([
      { name: "default-ipv4", cidr: "10.1.0.0/16", blockSize: 26, source: "--ipv4-pool" },
    ]);
    expect(plan({ family: 6, option: "fd44:244::/48" }).pools).toEqual([
      { name: "default-ipv6", cidr: "fd44:244::/48", blockSize: 122, source: "--ipv6-pool" },
    ]);
    expect(plan({ option: "10.0.0.0/99" })).toEqual({
      pools: [],
      refusal: expect.stringContaining("--ipv4-pool=10.0.0.0/99 is no IPv4 range"),
    });
  });

  it("has kubeadm's range of its family, before those of nodes", () => {
    const podSubnet = "10.96.0.0/16, fd00:1::/56";
    expect(plan({ podSubnet, nodes: NODES }).pools).toEqual([
      { name: "default-ipv4", cidr: "10.96.0.0/16", blockSize: 26, source: "kubeadm's podSubnet" },
    ]);
    expect(plan({ family: 6, podSubnet, nodes: NODES }).pools.map(({ cidr }) => cidr)).toEqual(["fd00:1::/56"]);
  });

  it("has exactly the addresses of nodes' ranges where kubeadm says nothing of the family", () => {
    const { pools, refusal } = plan({ podSubnet: "fd00:1::/56", nodes: NODES });
    expect(refusal).toBeUndefined();
    expect(pools.map(({ name, cidr }) => [name, cidr])).toEqual([
      ["nodes-10-244-0-0-23", "10.244.0.0/23"],
      ["nodes-10-244-5-0-24", "10.244.5.0/24"],
    ]);
    expect(plan({ family: 6, nodes: NODES }).pools.map(({ name, cidr }) => [name, cidr])).toEqual([
      ["nodes-fd00-10-244---63", "fd00:10:244::/63"],
    ]);
  });

  it("is one block where it is smaller than a block is by default", () => {
    expect(plan({ option: "10.1.0.0/28" }).pools[0]?.blockSize).toBe(28);
  });

  it("is not guessed: what to set is said instead", () => {
    const told = "no IPv4 pool is made: neither kubeadm's podSubnet nor spec.podCIDRs of a node names a range; set --ipv4-pool=CIDR";
    expect(plan({ nodes: new Map([["a", node([])]]) })).toEqual({ pools: [], refusal: told });
    expect(plan({ podSubnet: "10.1.0.0/16,10.2.0.0/16" }).refusal).toContain("several IPv4 ranges");
    expect(plan({ podSubnet: "10.1.0.0/16,here" }).refusal).toContain('"here"');
  });

  it("never holds an address of a node", () => {
    const nodes = new Map([["a", node([], "10.244.7.1")]]);
    expect(plan({ podSubnet: "10.244.0.0/16", nodes })).toEqual({
      pools: [],
      refusal: "no pool 10.244.0.0/16 (kubeadm's podSubnet) is made: 10.244.7.1 inside is an address of node a",
    });
  });
});

describe("pools that are there", () => {
  it("are left alone, whatever the option says, and whoever made them", () => {
    for (const pool of [ours, others]) {
      expect(plan({ option: "10.1.0.0/16", pools: [pool("default-ipv4", "10.2.0.0/16")] })).toEqual({ pools: [] });
      expect(plan({ podSubnet: "10.1.0.0/16", pools: [pool("default-ipv4", "10.2.0.0/16")] })).toEqual({ pools: [] });
    }
  });

  it("of the other family count for nothing", () => {
    expect(plan({ podSubnet: "10.1.0.0/16", pools: [others("six", "fd00::/48")] }).pools).toHaveLength(1);
  });

  it("of somebody else mean that ranges of nodes become no pools either", () => {
    expect(plan({ nodes: NODES, pools: [others("theirs", "10.9.0.0/16")] })).toEqual({ pools: [] });
  });

  it("grow with the nodes where they come from those, without a word about what is covered", () => {
    const pools = [ours("nodes-10-244-0-0-23", "10.244.0.0/23")];
    expect(plan({ nodes: NODES, pools }).pools.map(({ cidr }) => cidr)).toEqual(["10.244.5.0/24"]);
    expect(plan({ nodes: NODES, pools: [...pools, ours("more", "10.244.4.0/22")] })).toEqual({ pools: [] });
  });

  it("are never overlapped", () => {
    const { pools, refusal } = plan({ nodes: NODES, pools: [ours("small", "10.244.5.128/25")] });
    expect(pools).toEqual([]);
    expect(refusal).toContain("10.244.5.0/24 (spec.podCIDRs of nodes) is made: it overlaps with pool small (10.244.5.128/25)");
  });
});

describe("ranges together", () => {
  const aggregated = (texts: readonly string[]) =>
    aggregate(texts.flatMap((text) => parsePrefix(text) ?? [])).map((prefix) => formatPrefix(prefix));

  it("become the fewest that have the same addresses", () => {
    expect(aggregated(["10.0.1.0/24", "10.0.0.0/24", "10.0.3.0/24", "10.0.2.0/24"])).toEqual(["10.0.0.0/22"]);
    expect(aggregated(["10.0.1.0/24", "10.0.2.0/24"])).toEqual(["10.0.1.0/24", "10.0.2.0/24"]);
    expect(aggregated(["10.0.0.0/16", "10.0.3.0/24", "10.0.3.0/24"])).toEqual(["10.0.0.0/16"]);
    for (const texts of [
      ["10.0.0.0/24", "10.0.0.0/16"],
      ["10.0.0.0/16", "10.0.0.0/24"],
    ]) {
      expect(aggregated(texts)).toEqual(["10.0.0.0/16"]);
    }
    expect(aggregated(["0.0.0.0/1", "128.0.0.0/1"])).toEqual(["0.0.0.0/0"]);
    expect(aggregated(["10.0.0.0/25", "10.0.0.128/26", "10.0.0.192/26", "10.0.1.0/24"])).toEqual(["10.0.0.0/23"]);
    expect(aggregated([])).toEqual([]);
  });
});
