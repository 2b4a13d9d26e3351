import { decodeRoutedNode } from "../../../../agent/routes/kubernetes-sources.ts";
import { proveRanges, type RangeKnowledge } from "../../../../agent/routes/proofs.ts";
import { formatPrefix } from "../../../../lib/addresses/address.ts";
import { prefix } from "../../../support/addresses.ts";

interface Said {
  readonly created?: string;
  readonly given?: readonly string[];
  readonly ipv4?: string;
  readonly ipv6?: string;
  readonly address?: string;
}

/** A Node object as a server gives it. */
function node(name: string, { created = "2026-01-01T00:00:00Z", given, ipv4, ipv6, address }: Said = {}) {
  const annotations: Record<string, string> = {};
  if (ipv4 !== undefined) annotations["network.tortie.dev/ipv4-pod-cidr"] = ipv4;
  if (ipv6 !== undefined) annotations["network.tortie.dev/ipv6-pod-cidr"] = ipv6;
  if (address !== undefined) annotations["projectcalico.org/IPv4Address"] = address;
  return decodeRoutedNode({ metadata: { name, creationTimestamp: created, annotations }, spec: { podCIDRs: given ?? [] } });
}

const VICTIM = node("victim", { address: "10.9.0.1/24" });
const GOOD = node("good", { ipv4: "10.244.2.0/24", address: "10.9.0.2/24" });
const KNOWN: RangeKnowledge = {
  own: { name: "victim", ranges: [prefix("10.244.1.0/24")] },
  subnets: [prefix("10.9.0.0/24")],
  clusterCidrs: [],
};

function judge(nodes: Parameters<typeof proveRanges>[0], knowledge: RangeKnowledge = KNOWN) {
  const { ranges, refused } = proveRanges(nodes, knowledge);
  return { ranges: Object.fromEntries([...ranges].map(([name, known]) => [name, known.map(formatPrefix)])), refused };
}

describe("S1: a range that a node says it has, where the cluster gives none", () => {
  it("counts when it is nobody else's", () => {
    expect(judge([VICTIM, GOOD])).toEqual({ ranges: { victim: ["10.244.1.0/24"], good: ["10.244.2.0/24"] }, refused: [] });
  });

  it.each([
    ["0.0.0.0/1", "has addresses of 0.0.0.0/8"],
    ["0.0.0.0/0", "has addresses of 169.254.0.0/16"],
    ["169.254.169.254/32", "has addresses of 169.254.0.0/16"],
    ["127.0.0.0/16", "has addresses of 127.0.0.0/8"],
    ["224.0.0.0/16", "has addresses of 224.0.0.0/4"],
    ["93.184.216.34/32", "is not between /16 and /31; declare --cluster-cidr"],
    ["93.0.0.0/8", "is not between /16 and /31; declare --cluster-cidr"],
    ["10.9.0.128/25", "has addresses of this host's subnet 10.9.0.0/24; declare --cluster-cidr"],
    ["10.244.1.0/24", "overlaps with 10.244.1.0/24 of node victim"],
    ["10.244.0.0/16", "overlaps with 10.244.1.0/24 of node victim"],
    ["10.244.1.0/25", "overlaps with 10.244.1.0/24 of node victim"],
    ["10.244.2.0/25", "overlaps with 10.244.2.0/24 of node good"],
    ["10.10.0.0/16", "has the address 10.10.7.7 of a node"],
  ])("%s is refused", (ipv4, why) => {
    const evil = node("evil", { ipv4, created: "2026-02-01T00:00:00Z" });
    const far = node("far", { address: "10.10.7.7/24" });
    const { ranges, refused } = judge([evil, VICTIM, GOOD, far]);
    expect(ranges).toEqual({ victim: ["10.244.1.0/24"], good: ["10.244.2.0/24"], far: [], evil: [] });
    expect(refused).toEqual([`node evil says that ${formatPrefix(prefix(ipv4))} is its range, which ${why}`]);
  });

  it.each([
    ["2001:db8::53/128", "is not between /64 and /127; declare --cluster-cidr"],
    ["fe80::/64", "has addresses of fe80::/10"],
    ["ff02::/64", "has addresses of ff00::/8"],
    ["::/96", "has addresses of ::/96"],
  ])("%s is refused", (ipv6, why) => {
    expect(judge([VICTIM, node("evil", { ipv6 })]).refused).toEqual([`node evil says that ${ipv6} is its range, which ${why}`]);
  });

  it("belongs to the older of two Node objects that name it, in whatever order they come", () => {
    const young = node("a-young", { ipv4: "10.244.2.128/25", created: "2026-03-01T00:00:00Z" });
    for (const nodes of [
      [young, GOOD],
      [GOOD, young],
    ]) {
      expect(judge(nodes).ranges).toEqual({ good: ["10.244.2.0/24"], "a-young": [] });
    }
  });

  it("lies inside of --cluster-cidr where that is declared, be it the hosts' own subnet, and has any length there", () => {
    const knowledge = { ...KNOWN, clusterCidrs: [prefix("10.0.0.0/8")] };
    const nodes = [
      VICTIM,
      node("flat", { ipv4: "10.9.0.64/26" }),
      node("wide", { ipv4: "10.64.0.0/12" }),
      node("out", { ipv4: "192.0.2.0/24" }),
    ];
    expect(judge(nodes, knowledge)).toEqual({
      ranges: { victim: ["10.244.1.0/24"], flat: ["10.9.0.64/26"], wide: ["10.64.0.0/12"], out: [] },
      refused: ["node out says that 192.0.2.0/24 is its range, which lies outside of --cluster-cidr"],
    });
  });

  it("is not lost by another node that says its own address lies there, once the cluster's range is declared", () => {
    const liar = node("liar", { address: "10.244.2.9/24" });
    const knowledge = { ...KNOWN, clusterCidrs: [prefix("10.244.0.0/16")] };
    expect(judge([VICTIM, GOOD, liar], knowledge).ranges).toMatchObject({ good: ["10.244.2.0/24"] });
  });
});

describe("S1: a range of spec.podCIDRs", () => {
  it("counts before what the node says, unless that is a part of it", () => {
    const given = ["10.244.3.0/24", "fd08:3::/64"];
    expect(judge([node("part", { given, ipv4: "10.244.3.128/25" })]).ranges).toEqual({ part: ["10.244.3.128/25", "fd08:3::/64"] });
    expect(judge([node("liar", { given, ipv4: "0.0.0.0/1" })])).toEqual({
      ranges: { liar: given },
      refused: ["node liar says that 0.0.0.0/1 is its range, which lies outside of its spec.podCIDRs"],
    });
  });

  it("is not taken by a node that was given none", () => {
    const evil = node("evil", { ipv4: "10.244.3.0/25", created: "2025-01-01T00:00:00Z" });
    expect(judge([evil, node("good", { given: ["10.244.3.0/24"] })]).ranges).toEqual({ evil: [], good: ["10.244.3.0/24"] });
  });

  it("is this node's own until its agent has decided, and not longer", () => {
    const own = node("victim", { given: ["10.244.7.0/24"], ipv4: "10.244.0.0/16" });
    const undecided = { ...KNOWN, own: { name: "victim", ranges: [] } };
    expect(judge([own], undecided).ranges).toEqual({ victim: ["10.244.7.0/24"] });
    expect(judge([own])).toEqual({ ranges: { victim: ["10.244.1.0/24"] }, refused: [] });
  });
});
