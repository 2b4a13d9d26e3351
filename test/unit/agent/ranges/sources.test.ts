import { annotationPatch } from "../../../../agent/addresses/ranges/annotations.ts";
import { type NodeFacts, nodeFacts } from "../../../../agent/addresses/ranges/node-object.ts";
import { type NodeCidrFlags, nodeCidrOptions } from "../../../../agent/addresses/ranges/options.ts";
import { chooseHostAddress, exclusionsOf, type HostFacts, type LinkAddress } from "../../../../agent/addresses/ranges/own-addresses.ts";
import { decideRanges, describeRange, type SourceInput } from "../../../../agent/addresses/ranges/sources.ts";
import type { NodeRecord } from "../../../../ipam-plugin/host-scope/node-record.ts";
import { type Address, formatAddress, formatPrefix } from "../../../../lib/addresses/address.ts";
import { address, prefix } from "../../../support/addresses.ts";
import { RANGE_FLAGS } from "../../../support/range-flags.ts";

const OUR4 = "network.tortie.dev/ipv4-pod-cidr";
const SOURCE = "network.tortie.dev/pod-cidr-source";

function node(facts: Partial<NodeFacts> = {}): NodeFacts {
  return { name: "node1", createdAt: "2026-11-20T10:00:00Z", podCIDRs: [], podCIDR: "", annotations: {}, addresses: [], ...facts };
}

function decide(flags: Partial<NodeCidrFlags>, facts: Partial<NodeFacts> | undefined, rest: Partial<SourceInput> = {}) {
  const options = nodeCidrOptions({ ...RANGE_FLAGS, ...flags });
  const input = { options, node: facts === undefined ? undefined : node(facts), hostAddress: address("192.0.2.16"), ...rest };
  const { ranges, warnings, missing } = decideRanges(input);
  return { 4: ranges[4] && describeRange(ranges[4]), 6: ranges[6] && describeRange(ranges[6]), warnings, missing };
}

const NOTHING_WRONG = { warnings: [], missing: [] };

describe("where a range comes from", () => {
  it("A-C01: the pod CIDRs of the spec, one a family", () => {
    expect(decide({}, { podCIDRs: ["10.244.1.0/24", "fd44:1::/64"], podCIDR: "10.244.1.0/24" })).toEqual({
      4: "10.244.1.0/24 (spec)",
      6: "fd44:1::/64 (spec)",
      ...NOTHING_WRONG,
    });
    expect(decide({}, { podCIDR: "10.244.1.7/24" })).toEqual({ 4: "10.244.1.0/24 (spec)", 6: undefined, ...NOTHING_WRONG });
  });

  it("A-C02: a bad entry is passed over with a warning, its family comes from the annotation, the other from the spec", () => {
    expect(decide({}, { podCIDRs: ["10.244.1.0/33", "fd44:1::/64"], annotations: { [OUR4]: "10.7.0.0/24" } })).toEqual({
      4: "10.7.0.0/24 (annotation)",
      6: "fd44:1::/64 (spec)",
      warnings: ['Invalid PodCIDR value for node: "10.244.1.0/33"'],
      missing: [],
    });
  });

  it("A-C03: of three entries none counts, and the single field does not either", () => {
    const facts = { podCIDRs: ["10.1.0.0/24", "10.2.0.0/24", "fd44::/64"], podCIDR: "10.1.0.0/24", annotations: { [OUR4]: "10.7.0.0/24" } };
    expect(decide({}, facts)).toEqual({
      4: "10.7.0.0/24 (annotation)",
      6: undefined,
      warnings: ["Invalid PodCIDRs expected 1 or 2 PodCIDRs, received 3"],
      missing: [],
    });
  });

  it("of two entries of one family the last one wins", () => {
    expect(decide({}, { podCIDRs: ["10.1.0.0/24", "10.2.0.0/24"] })[4]).toBe("10.2.0.0/24 (spec)");
  });

  it("A-C04: the spec beats the annotation", () => {
    expect(decide({}, { podCIDR: "10.1.0.0/24", annotations: { [OUR4]: "10.7.0.0/24" } })[4]).toBe("10.1.0.0/24 (spec)");
  });

  it("A-C05: a flag beats everything; what is no CIDR is refused with its value", () => {
    expect(decide({ "ipv4-range": "10.9.0.5/24" }, { podCIDR: "10.1.0.0/24" })[4]).toBe("10.9.0.0/24 (flag)");
    for (const bad of ["10.0.0.0/33", "atuo", "fd00::/64", ""]) {
      expect(() => nodeCidrOptions({ ...RANGE_FLAGS, "ipv4-range": bad })).toThrow(expect.objectContaining({ word: "option-invalid" }));
      expect(() => nodeCidrOptions({ ...RANGE_FLAGS, "ipv4-range": bad })).toThrow(JSON.stringify(bad));
    }
    expect(() => nodeCidrOptions({ ...RANGE_FLAGS, "ipv6-cluster-alloc-cidr": "f00d::/48" })).toThrow("CIDR length must be /64");
    expect(() => nodeCidrOptions({ ...RANGE_FLAGS, "ipv6-node": "fe80::1" })).toThrow("not a global unicast address");
    expect(() => nodeCidrOptions({ ...RANGE_FLAGS, "ipv4-node": "::1" })).toThrow("neither an IPv4 address nor auto");
    expect(() => nodeCidrOptions({ ...RANGE_FLAGS, "enable-ipv4": false, "enable-ipv6": false })).toThrow("must be enabled");
  });

  it("a family that is switched off has no range, whatever the node says", () => {
    const facts = { podCIDRs: ["10.1.0.0/24", "fd44::/64"] };
    expect(decide({ "enable-ipv6": false }, facts)).toEqual({ 4: "10.1.0.0/24 (spec)", 6: undefined, ...NOTHING_WRONG });
  });

  it("A-C06: a required range must come from the node object; a flag or an annotation does not do", () => {
    const missing = ["required IPv4 pod CIDR not present in node resource"];
    expect(decide({ "require-ipv4-pod-cidr": true }, { annotations: { [OUR4]: "10.7.0.0/24" } }).missing).toEqual(missing);
    expect(decide({ "require-ipv4-pod-cidr": true }, { podCIDR: "10.1.0.0/24" }).missing).toEqual([]);
  });

  it("an annotation that an agent made up itself is no operator's; a bad one is passed over", () => {
    const automatic = { [OUR4]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" };
    expect(decide({}, { annotations: automatic })).toMatchObject({
      4: undefined,
      missing: [expect.stringContaining("node1 has no pod CIDR")],
    });
    expect(decide({}, { annotations: { ...automatic, [SOURCE]: "ipv4=flag,ipv6=spec" } })[4]).toBe("10.7.0.0/16 (annotation)");
    const bad = decide({}, { annotations: { [OUR4]: "10.7.0.0" } });
    expect(bad.warnings).toEqual([`invalid IPv4 annotation CIDR in node: ${OUR4} is "10.7.0.0"`]);
  });

  it("Cilium's annotation is read after ours, and only when asked for", () => {
    const annotations = { "io.cilium.network.ipv4-pod-cidr": "10.8.0.0/24" };
    expect(decide({}, { annotations })[4]).toBeUndefined();
    expect(decide({ "read-cilium-annotations": true }, { annotations })[4]).toBe("10.8.0.0/24 (annotation)");
    expect(decide({ "read-cilium-annotations": true }, { annotations: { ...annotations, [OUR4]: "10.7.0.0/24" } })[4]).toBe(
      "10.7.0.0/24 (annotation)",
    );
  });

  it("what was decided before from an annotation stays while the process runs, unless the spec says something", () => {
    const decided = { 4: { cidr: prefix("10.7.0.0/24"), source: "annotation" as const } };
    expect(decide({}, { annotations: { [OUR4]: "10.66.0.0/24" } }, { decided })[4]).toBe("10.7.0.0/24 (annotation)");
    expect(decide({}, { podCIDR: "10.1.0.0/24" }, { decided })[4]).toBe("10.1.0.0/24 (spec)");
  });

  it("A-C08: on Kubernetes nothing is automatic unless auto-host asks for it; outside everything may be", () => {
    expect(decide({}, {})).toMatchObject({ 4: undefined, 6: undefined, missing: [expect.stringContaining("no pod CIDR")] });
    expect(decide({ "ipv4-range": "auto-host" }, {})).toMatchObject({ 4: "10.16.0.0/16 (automatic)", 6: undefined });
    expect(decide({}, undefined)).toEqual({ 4: "10.16.0.0/16 (automatic)", 6: "f00d::a10:0:0:0/96 (automatic)", ...NOTHING_WRONG });
    expect(decide({ "ipv6-range": "auto-host" }, { podCIDR: "10.16.3.0/24" })[6]).toBe("f00d::a10:300:0:0/96 (automatic)");
    expect(decide({ "ipv6-range": "fd01:2:3:4:5:642a::/96" }, undefined)[4]).toBe("10.42.0.0/16 (automatic)");
    expect(decide({}, undefined, { hostAddress: undefined })).toMatchObject({ missing: [expect.stringContaining("--ipv4-range")] });
  });

  it("reads the node object, bad addresses left out", () => {
    const object = {
      metadata: { name: "node1", creationTimestamp: "2026-11-20T10:00:00Z", annotations: { a: "b" } },
      spec: { podCIDR: "10.1.0.0/24", podCIDRs: ["10.1.0.0/24"] },
      status: {
        addresses: [
          { type: "Hostname", address: "node1" },
          { type: "ExternalIP", address: "198.51.100.7" },
          { type: "InternalIP", address: "192.0.2.7" },
          { type: "InternalIP", address: "no address" },
        ],
      },
    };
    const facts = nodeFacts(object);
    expect({ ...facts, addresses: facts.addresses.map(formatAddress) }).toEqual({
      name: "node1",
      createdAt: "2026-11-20T10:00:00Z",
      podCIDR: "10.1.0.0/24",
      podCIDRs: ["10.1.0.0/24"],
      annotations: { a: "b" },
      addresses: ["192.0.2.7", "198.51.100.7"],
    });
    expect(nodeFacts({ metadata: { name: "bare" } })).toEqual(node({ name: "bare", createdAt: "" }));
  });
});

describe("the host's own address", () => {
  const on = (link: string, text: string, change: Partial<LinkAddress> = {}): LinkAddress => ({
    address: address(text),
    link,
    isUp: true,
    scope: 0,
    ...change,
  });
  const choose = (addresses: readonly LinkAddress[], family: 4 | 6 = 4) => {
    const chosen = chooseHostAddress(addresses, family);
    return chosen === undefined ? undefined : formatAddress(chosen);
  };

  it("is of widest scope, public before private, lowest first", () => {
    const addresses = [
      on("eth1", "192.168.0.9"),
      on("eth0", "203.0.113.9"),
      on("eth0", "203.0.113.8"),
      on("eth2", "198.51.100.1", { scope: 253 }),
      on("eth3", "1.1.1.1", { isUp: false }),
      on("docker0", "1.1.1.2"),
      on("lo", "1.1.1.3"),
      on("eth0", "2001:db8::2"),
      on("eth0", "fe80::1", { scope: 253 }),
    ];
    expect([choose(addresses), choose(addresses, 6)]).toEqual(["203.0.113.8", "2001:db8::2"]);
    expect(choose([...addresses].reverse())).toBe("203.0.113.8");
    expect(choose(addresses.filter(({ link }) => link !== "eth0"))).toBe("192.168.0.9");
    expect(choose([on("docker0", "1.1.1.2")])).toBeUndefined();
  });
});

describe("A-I04: what is excluded from a range", () => {
  const facts: HostFacts = {
    addresses: [
      { address: address("10.60.0.9"), link: "eth0", isUp: true, scope: 0 },
      { address: address("10.60.0.1"), link: "tortie_host", isUp: true, scope: 0 },
    ],
    routes: [
      { destination: prefix("10.60.0.0/25"), link: "eth1", leadsElsewhere: true },
      { destination: prefix("10.0.0.0/8"), link: "tun0", leadsElsewhere: true },
      { destination: prefix("0.0.0.0/0"), link: "eth0", leadsElsewhere: true },
      { destination: prefix("10.60.0.77/32"), link: "cali1", leadsElsewhere: false },
      { destination: prefix("10.60.0.128/25"), link: "tortie_host", leadsElsewhere: true },
      { destination: prefix("10.61.0.0/24"), link: "eth1", leadsElsewhere: true },
    ],
  };
  const isOwn = (one: Address) => formatAddress(one) === "10.60.0.1";

  it("is the node's addresses and routes as specific as the range or more; a wider one is reported and excludes nothing", () => {
    const { exclusions, shadowing } = exclusionsOf([prefix("10.60.0.0/24")], [address("10.60.0.10")], facts, isOwn);
    expect(exclusions.map(({ prefix: one, reason }) => `${formatPrefix(one)} ${reason}`)).toEqual([
      "10.60.0.10/32 address of the node",
      "10.60.0.9/32 address of eth0",
      "10.60.0.0/25 route 10.60.0.0/25 dev eth1",
    ]);
    expect(shadowing).toEqual(["route 10.0.0.0/8 dev tun0 is wider than the range 10.60.0.0/24"]);
  });
});

describe("the annotations of the node", () => {
  const record: NodeRecord = {
    node: "node1",
    bootId: "boot",
    ipv4: { cidr: prefix("10.1.0.0/24"), source: "spec", router: address("10.1.0.1"), health: address("10.1.0.2") },
    exclusions: [],
    strategy: "random",
    cooldownMs: 0,
  };
  const written = {
    [OUR4]: "10.1.0.0/24",
    "network.tortie.dev/ipv4-router-ip": "10.1.0.1",
    "network.tortie.dev/ipv4-health-ip": "10.1.0.2",
    [SOURCE]: "ipv4=spec",
  };

  it("A-C04, A-C11: are patched where they differ, and only our own", () => {
    expect(annotationPatch({}, record, [4, 6])).toEqual(written);
    expect(annotationPatch({ ...written, foreign: "x" }, record, [4, 6])).toBeUndefined();
    expect(annotationPatch({ ...written, [OUR4]: "10.66.0.0/24" }, record, [4, 6])).toEqual({ [OUR4]: "10.1.0.0/24" });
  });

  it("are taken away for a family that is switched off", () => {
    expect(annotationPatch({ ...written, "network.tortie.dev/ipv6-pod-cidr": "fd44::/64" }, record, [4])).toEqual({
      "network.tortie.dev/ipv6-pod-cidr": null,
    });
  });
});
