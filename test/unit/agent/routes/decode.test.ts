import { decodeRoutedNode, routedBlock, routedPool } from "../../../../agent/routes/kubernetes-sources.ts";
import { underlayOf } from "../../../../agent/routes/own-node.ts";
import { formatAddress, formatPrefix } from "../../../../lib/addresses/address.ts";
import { watchedBlock } from "../../../../lib/datastore/calico/block.ts";
import type { Block } from "../../../../lib/datastore/resources.ts";
import { Claimed } from "../../../../lib/system/claimed.ts";
import { address, prefix } from "../../../support/addresses.ts";
import { emptyBlock, samplePool } from "../../../support/samples.ts";

function node(annotations: Readonly<Record<string, string>>, rest: Readonly<Record<string, unknown>> = {}) {
  return decodeRoutedNode({ metadata: { name: "one", annotations }, ...rest });
}

const C = "projectcalico.org";
const STATUS = {
  addresses: [
    { type: "ExternalIP", address: "192.0.2.1" },
    { type: "InternalIP", address: "172.20.1.1" },
    { type: "InternalIP", address: "fd20:1::1" },
    { type: "InternalIP", address: "172.20.1.99" },
  ],
};

describe("A Node object", () => {
  it("says where the node is reached, and where its tunnels end", () => {
    const { recorded, internal, claims } = node(
      {
        [`${C}/IPv4Address`]: "172.20.1.7/24",
        [`${C}/IPv6Address`]: "fd20:1::7",
        [`${C}/IPv4VXLANTunnelAddr`]: "10.9.1.0",
        [`${C}/VXLANTunnelMACAddr`]: "66:AA:00:00:00:01",
        [`${C}/IPv6VXLANTunnelAddr`]: "fd09:1::",
      },
      { status: STATUS },
    );
    expect([recorded[4], recorded[6]].map((one) => one && formatPrefix(one))).toEqual(["172.20.1.7/24", "fd20:1::7/128"]);
    expect([internal[4], internal[6]].map((one) => one && formatAddress(one))).toEqual(["172.20.1.1", "fd20:1::1"]);
    expect(claims.tunnels).toEqual({
      4: new Claimed({ address: address("10.9.1.0"), mac: "66:aa:00:00:00:01" }),
      6: new Claimed({ address: address("fd09:1::") }),
    });
  });

  it("counts as silent where an annotation makes no sense", () => {
    const { recorded, claims } = node({
      [`${C}/IPv4Address`]: "fd20::1/64",
      [`${C}/IPv6Address`]: "none",
      [`${C}/IPv4VXLANTunnelAddr`]: "fd09:1::",
      [`${C}/IPv6VXLANTunnelAddr`]: "fd09:2::",
      [`${C}/VXLANTunnelMACAddrV6`]: "nonsense",
    });
    expect(recorded).toEqual({});
    expect(claims.tunnels).toEqual({ 6: new Claimed({ address: address("fd09:2::") }) });
  });

  it("brings the ranges that the cluster gave it, and as a claim those that its agent says it has", () => {
    const spec = { podCIDRs: ["10.8.1.7/24", "fd08:1::/64", "nonsense"] };
    const { given, claims } = node({ "network.tortie.dev/ipv4-pod-cidr": "10.7.1.9/24" }, { spec });
    expect(given.map(formatPrefix)).toEqual(["10.8.1.0/24", "fd08:1::/64"]);
    expect(claims.ranges).toEqual({ 4: new Claimed(prefix("10.7.1.0/24")) });
  });
});

describe("This node's address", () => {
  const link = { address: address("172.20.1.1"), length: 24, mtu: 9000, isUp: true };

  it("is the recorded one with its prefix length, if a link that is up has it; else kubelet's with that of the link", () => {
    const shown = (annotations: Readonly<Record<string, string>>, links = [link]) => {
      const found = underlayOf(node(annotations, { status: STATUS }), links)[4];
      return found && `${formatPrefix(found.address)} ${found.mtu}`;
    };
    expect(shown({ [`${C}/IPv4Address`]: "172.20.1.1/16" })).toBe("172.20.1.1/16 9000");
    expect(shown({ [`${C}/IPv4Address`]: "172.20.5.5/16" })).toBe("172.20.1.1/24 9000");
    expect(shown({})).toBe("172.20.1.1/24 9000");
    expect(shown({}, [{ ...link, isUp: false }])).toBeUndefined();
  });
});

function routed(block: Block) {
  const watched = watchedBlock(block);
  return watched && routedBlock(watched);
}

describe("A block", () => {
  const owned = { handleId: "a", activeOwner: { node: "one", type: "vxlanTunnelAddress" } };
  const elsewhere = { handleId: "b", activeOwner: { node: "two" } };

  it("leads to its owner, and its borrowed addresses to their nodes; those without a node, and in cooldown, to nowhere", () => {
    const block = emptyBlock("10.9.1.0/29", 8, {
      affinity: { type: "host", name: "one" },
      allocations: [0, 1, null, 2, 3, null, null, null],
      attributes: [owned, elsewhere, { handleId: "c" }, { releasedAt: "2030-01-01T00:00:00Z" }],
    });
    const { owner, borrowed, tunnelEnds } = routed(block) ?? {};
    expect(owner).toBe("one");
    expect(borrowed).toEqual([{ address: address("10.9.1.1"), node: "two" }]);
    expect(tunnelEnds).toEqual([{ address: address("10.9.1.0"), node: "one" }]);
  });

  it("is in use when a node has more of it than an end of a tunnel", () => {
    const attributes = [owned, elsewhere];
    expect(routed(emptyBlock("10.9.1.0/29", 8, { allocations: [0, null], attributes }))?.isUsed).toBe(false);
    expect(routed(emptyBlock("10.9.1.0/29", 8, { allocations: [0, 1], attributes }))?.isUsed).toBe(true);
  });

  it("has no owner that packets could be led to where the owner is no node", () => {
    const block = emptyBlock("10.9.1.0/29", 8, { affinity: { type: "virtual", name: "load-balancer" } });
    expect(routed(block)).toMatchObject({ borrowed: [] });
    expect(routed(block)?.owner).toBeUndefined();
  });
});

describe("A pool", () => {
  it.each([
    [{ vxlanMode: "CrossSubnet" }, ["CrossSubnet", "Never"]],
    [{ ipipMode: "Always", vxlanMode: "Never" }, ["Never", "Always"]],
    [{}, ["Never", "Never"]],
    [{ vxlanMode: "Sometimes" }, ["Never", "Never"]],
  ])("with %j", (spec, modes) => {
    const pool = routedPool(samplePool("p", "10.9.0.0/16"), spec);
    expect([pool?.vxlanMode, pool?.ipipMode]).toEqual(modes);
  });

  it.each([
    [{}, true],
    [{ disabled: true }, false],
    [{ deleting: true }, false],
    [{ allowedUses: ["Workload"] }, false],
  ])("changed by %j serves tunnels: %p", (change, serves) => {
    expect(routedPool(samplePool("p", "10.9.0.0/16", change), {})?.servesTunnels).toBe(serves);
  });

  it("without a CIDR is none", () => {
    expect(routedPool(samplePool("p", "nonsense"), {})).toBeUndefined();
  });
});
