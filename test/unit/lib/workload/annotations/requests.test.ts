import { formatAddress } from "../../../../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../../../../lib/config/decode.ts";
import type { JsonObject } from "../../../../../lib/json/value.ts";
import { podRequests } from "../../../../../lib/workload/annotations/requests.ts";
import { parseCniArgs, requestedOf } from "../../../../../lib/workload/requested.ts";
import { annotatedNamespace, annotatedPod } from "../../../../support/pods.ts";
import { thrownBy } from "../../../../support/thrown.ts";

type Annotations = Readonly<Record<string, string>>;

interface Asking {
  readonly pod?: Annotations;
  readonly namespace?: Annotations;
  readonly netconf?: JsonObject;
  readonly args?: string;
}

const FEATURES = { feature_control: { ip_addrs_no_ipam: true, floating_ips: true } };
const HOST_LOCAL = { ipam: { type: "host-local", subnet: "10.80.0.0/24" } };

function requestsOf({ pod = {}, namespace = {}, netconf = {}, args = "" }: Asking) {
  const config = decodeNetworkConfig({ policy: { type: "k8s" }, ipam: { type: "calico-ipam" }, ...netconf });
  return podRequests(annotatedPod(pod), annotatedNamespace(namespace), config, requestedOf(config, parseCniArgs(args)));
}

const refusalOf = (asking: Asking) => thrownBy(() => requestsOf(asking));

describe("a pod that asks for nothing", () => {
  it("leaves everything to the network configuration", () => {
    expect(requestsOf({})).toEqual({
      pools: { ipv4: undefined, ipv6: undefined },
      families: undefined,
      addresses: { kind: "ipam" },
      mac: undefined,
      floatingIps: [],
      allowedSourcePrefixes: [],
    });
  });

  it.each(["", "other"])("is what every pod is under policy.type %j, however bad its annotations (recording policy-type-other)", (type) => {
    const pod = { ipAddrs: "nonsense", hwAddr: "", ipv4pools: "nonsense", floatingIPs: "nonsense", allowedSourcePrefixes: "nonsense" };
    expect(requestsOf({ pod, netconf: { policy: { type } } })).toEqual(requestsOf({}));
  });
});

describe("pools", () => {
  const ipv4Pools = (pod: Annotations, namespace: Annotations = {}) => requestsOf({ pod, namespace }).pools.ipv4;

  it.each<[string, Annotations, Annotations, readonly string[] | undefined]>([
    ["are those of the pod", { ipv4pools: '["second4"]' }, {}, ["second4"]],
    ["are those of the pod before those of the namespace", { ipv4pools: '["a"]' }, { ipv4pools: '["b"]' }, ["a"]],
    ["are those of the namespace when the pod is silent", {}, { ipv4pools: '["b", "c"]' }, ["b", "c"]],
    ["are those of the namespace when the pod's text is empty (pools-empty-string)", { ipv4pools: "" }, { ipv4pools: '["b"]' }, ["b"]],
    ["are nobody's when both texts are empty", { ipv4pools: "" }, { ipv4pools: "" }, undefined],
    ["are any when the pod's list is empty (pools-empty-list)", { ipv4pools: "[]" }, { ipv4pools: '["b"]' }, []],
    ["are any when the pod says null", { ipv4pools: "null" }, { ipv4pools: '["b"]' }, []],
  ])("%s", (_, pod, namespace, expected) => {
    expect(ipv4Pools(pod, namespace)).toEqual(expected);
  });

  it("are judged a family at a time", () => {
    expect(requestsOf({ pod: { ipv4pools: '["a"]' }, namespace: { ipv6pools: '["b"]', ipv4pools: '["c"]' } }).pools).toEqual({
      ipv4: ["a"],
      ipv6: ["b"],
    });
  });

  it("and families are not looked at with another IPAM plugin (recording pools-hostlocal)", () => {
    const pod = { ipv4pools: "bad json", ipv6pools: "bad json", ipFamilies: "bad json" };
    expect(requestsOf({ pod, netconf: HOST_LOCAL })).toMatchObject({ pools: {}, families: undefined });
  });

  it("are looked at with both names of our IPAM plugin", () => {
    expect(requestsOf({ pod: { ipv4pools: '["a"]' }, netconf: { ipam: { type: "tortie-ipam" } } }).pools.ipv4).toEqual(["a"]);
  });
});

describe("families", () => {
  const families = (pod: Annotations, namespace: Annotations = {}) => requestsOf({ pod, namespace }).families;

  it.each([
    ['["IPv4"]', { ipv4: true, ipv6: false }],
    ['["IPv6"]', { ipv4: false, ipv6: true }],
    ['["IPv6", "IPv4"]', { ipv4: true, ipv6: true }],
    ["[]", { ipv4: false, ipv6: false }],
  ])("of %s", (text, expected) => {
    expect(families({ ipFamilies: text })).toEqual(expected);
    expect(families({}, { ipFamilies: text })).toEqual(expected);
  });

  it("of the pod beat those of the namespace, an empty text does not", () => {
    expect(families({ ipFamilies: '["IPv4"]' }, { ipFamilies: '["IPv6"]' })).toEqual({ ipv4: true, ipv6: false });
    expect(families({ ipFamilies: "" }, { ipFamilies: '["IPv6"]' })).toEqual({ ipv4: false, ipv6: true });
  });
});

describe("addresses", () => {
  const addressesOf = (asking: Asking) => {
    const { addresses } = requestsOf(asking);
    return addresses.kind === "ipam" ? ["ipam"] : [addresses.kind, ...addresses.addresses.map(formatAddress)];
  };

  it.each<[Annotations, readonly string[]]>([
    [{ ipAddrs: '["10.60.0.9"]' }, ["requested", "10.60.0.9"]],
    [{ ipAddrs: '["fd60::9", "10.60.0.9"]' }, ["requested", "fd60::9", "10.60.0.9"]],
    [{ ipAddrsNoIpam: '["10.99.0.1", "fd99::1"]' }, ["without-ipam", "10.99.0.1", "fd99::1"]],
    [{ ipAddrs: '["10.60.0.9"]', ipAddrsNoIpam: "" }, ["requested", "10.60.0.9"]],
    [{ ipAddrs: "", ipAddrsNoIpam: "" }, ["ipam"]],
  ])("of %j keep their order: %j (recordings ipaddrs, ipaddrs-dual, noipam)", (pod, expected) => {
    expect(addressesOf({ pod, netconf: FEATURES })).toEqual(expected);
  });

  it("of an annotation beat those of CNI_ARGS and of the runtime (recording ipaddrs-and-ip-arg)", () => {
    const asking = { netconf: { runtimeConfig: { ips: ["10.60.0.7"] } }, args: "IP=10.60.0.8" };
    expect(addressesOf({ ...asking, pod: { ipAddrs: '["10.60.0.9"]' } })).toEqual(["requested", "10.60.0.9"]);
    expect(addressesOf(asking)).toEqual(["ipam"]);
  });
});

describe("the MAC", () => {
  const macOf = (pod: Annotations, runtime: string | null = null, args = "") =>
    requestsOf({ pod, netconf: { runtimeConfig: { mac: runtime } }, args }).mac;

  it.each([
    ["ca:fe:ca:fe:ca:fe", "ca:fe:ca:fe:ca:fe"],
    ["CA-FE-CA-FE-CA-FE", "ca:fe:ca:fe:ca:fe"],
    ["cafe.cafe.cafe", "ca:fe:ca:fe:ca:fe"],
  ])("%s is %s (recordings hwaddr, hwaddr-uppercase-dashes)", (text, expected) => {
    expect(macOf({ hwAddr: text })).toBe(expected);
  });

  it("of the annotation beats that of the runtime, which beats that of CNI_ARGS", () => {
    const runtime = "02:00:00:00:00:02";
    const args = "MAC=02:00:00:00:00:03";
    expect(macOf({ hwAddr: "02:00:00:00:00:01" }, runtime, args)).toBe("02:00:00:00:00:01");
    expect(macOf({}, runtime, args)).toBe(runtime);
    expect(macOf({}, null, args)).toBe("02:00:00:00:00:03");
  });
});

describe("floating IPs", () => {
  const floating = (pod: Annotations, netconf: JsonObject = {}, args = "") =>
    requestsOf({ pod, netconf: { ...FEATURES, ...netconf }, args }).floatingIps.map(formatAddress);

  it("are taken in their order, and an empty list or text is none (recording floating-empty)", () => {
    const netconf = { ipam: { type: "calico-ipam", assign_ipv6: "true" } };
    expect(floating({ floatingIPs: '["2001:647F::21", "1.1.1.1"]' }, netconf)).toEqual(["2001:647f::21", "1.1.1.1"]);
    expect(floating({ floatingIPs: "[]" })).toEqual([]);
    expect(floating({ floatingIPs: "" })).toEqual([]);
  });

  it("may be of any family while only the IPAM plugin knows what the pod gets", () => {
    expect(floating({ floatingIPs: '["2001:647f::21"]' }, HOST_LOCAL)).toEqual(["2001:647f::21"]);
    expect(floating({ floatingIPs: '["2001:647f::21"]' }, HOST_LOCAL, "IP=10.80.0.9")).toEqual(["2001:647f::21"]);
  });

  it.each<[string, Asking]>([
    ["the network configuration", {}],
    ["ipFamilies", { pod: { ipFamilies: '["IPv4"]' }, netconf: { ipam: { type: "calico-ipam", assign_ipv6: "true" } } }],
    ["ipAddrs", { pod: { ipAddrs: '["10.60.0.9"]' }, netconf: { ipam: { type: "calico-ipam", assign_ipv6: "true" } } }],
    ["IP= of CNI_ARGS", { args: "IP=10.60.0.9", netconf: { ipam: { type: "calico-ipam", assign_ipv6: "true" } } }],
  ])("need their family, which %s decides (recording floating-family-absent)", (_, asking) => {
    const pod = { ...asking.pod, floatingIPs: '["2001:647f::21"]' };
    expect(refusalOf({ ...asking, pod, netconf: { ...FEATURES, ...asking.netconf } })).toMatchObject({
      word: "annotation-invalid",
      message: expect.stringContaining("floating IP 2001:647f::21 needs an IPv6 address, which this pod does not get"),
    });
  });
});

describe("source prefixes", () => {
  it("lose their host bits (recordings spoof-valid, spoof-empty-string)", () => {
    const prefixes = (text: string) => requestsOf({ pod: { allowedSourcePrefixes: text } }).allowedSourcePrefixes;
    expect(prefixes('["1.1.1.7/24", "8.8.8.8/32", "2001:DB8::1/64"]')).toEqual(["1.1.1.0/24", "8.8.8.8/32", "2001:db8::/64"]);
    expect(prefixes("")).toEqual([]);
    expect(prefixes("[]")).toEqual([]);
  });
});

/** Recording, annotations, the text that Calico printed and that ours begins with, the rest of the netconf. */
const RECORDED: readonly [string, Annotations, string, JsonObject?][] = [
  ["pools-bad-json", { ipv4pools: "second4" }, "invalid character 's' looking for beginning of value"],
  ["pools-not-strings", { ipv6pools: "[1]" }, "expected a JSON list of strings, not a number in it"],
  ["pools: an object", { ipv4pools: "{}" }, "expected a JSON list of strings, not an object"],
  ["pools: a null", { ipv4pools: "[null]" }, "expected a JSON list of strings, not null in it"],
  ["ipfamilies-bogus", { ipFamilies: '["ipv4"]' }, 'error parsing ipFamilies: ["ipv4"]'],
  ["ipfamilies: no JSON", { ipFamilies: "IPv4" }, "invalid character 'I' looking for beginning of value"],
  ["ipaddrs-bad-ip", { ipAddrs: '["10.60.0"]' }, "invalid IP format: 10.60.0"],
  ["ipaddrs-cidr", { ipAddrs: '["10.60.0.9/32"]' }, "invalid IP format: 10.60.0.9/32"],
  ["ipaddrs-empty", { ipAddrs: "[]" }, 'annotation "cni.projectcalico.org/ipAddrs" specified but empty'],
  [
    "ipaddrs-bad-json",
    { ipAddrs: "10.60.0.9" },
    "failed to parse IPs 10.60.0.9 for annotation \"cni.projectcalico.org/ipAddrs\": failed to parse '10.60.0.9' as JSON: invalid character '.' after top-level value",
  ],
  ["ipaddrs-hostlocal", { ipAddrs: '["10.60.0.9"]' }, "ipAddrs is not compatible with configured IPAM: host-local", HOST_LOCAL],
  [
    "noipam-hostlocal",
    { ipAddrsNoIpam: '["10.60.0.9"]' },
    "ipAddrsNoIpam is not compatible with configured IPAM: host-local",
    { ...HOST_LOCAL, ...FEATURES },
  ],
  ["noipam-bad-ip", { ipAddrsNoIpam: '["10.60.0"]' }, "invalid IP format: 10.60.0", FEATURES],
  ["noipam-empty", { ipAddrsNoIpam: "[]" }, 'annotation "cni.projectcalico.org/ipAddrsNoIpam" specified but empty', FEATURES],
  [
    "noipam-two-of-family",
    { ipAddrsNoIpam: '["10.60.0.9", "10.60.0.10"]' },
    'cannot have more than one IPv4 address for "cni.projectcalico.org/ipAddrsNoIpam" annotation',
    FEATURES,
  ],
  ["both annotations", { ipAddrs: '["10.60.0.9"]', ipAddrsNoIpam: '["10.60.0.9"]' }, "can't have both annotations", FEATURES],
  [
    "hwaddr-invalid",
    { hwAddr: "nonsense" },
    "failed to parse MAC address nonsense provided via cni.projectcalico.org/hwAddr: address nonsense: invalid MAC address",
  ],
  ["hwaddr-empty", { hwAddr: "" }, "failed to parse MAC address  provided via cni.projectcalico.org/hwAddr: invalid MAC address"],
  [
    "hwaddr-eui64",
    { hwAddr: "ca:fe:ca:fe:ca:fe:ca:fe" },
    "failed to parse MAC address ca:fe:ca:fe:ca:fe:ca:fe provided via cni.projectcalico.org/hwAddr: address ca:fe:ca:fe:ca:fe:ca:fe: invalid MAC address: 8 octets",
  ],
  [
    "R4: hwaddr-multicast, whose address parses",
    { hwAddr: "01:00:5e:00:00:01" },
    "MAC address 01:00:5e:00:00:01 provided via cni.projectcalico.org/hwAddr: a multicast or all-zero address cannot be that of an interface",
  ],
  [
    "floating-bad-json",
    { floatingIPs: "1.1.1.1" },
    "failed to parse '1.1.1.1' as JSON: invalid character '.' after top-level value",
    FEATURES,
  ],
  ["floating-bad-ip", { floatingIPs: '["nonsense"]' }, 'floating IP "nonsense" is not an IP address', FEATURES],
  ["spoof-empty-entry", { allowedSourcePrefixes: '[""]' }, "failed to parse '' as a CIDR: invalid CIDR address:"],
  ["spoof-no-mask", { allowedSourcePrefixes: '["8.8.8.8"]' }, "failed to parse '8.8.8.8' as a CIDR: invalid CIDR address: 8.8.8.8"],
  [
    "spoof-bad-json",
    { allowedSourcePrefixes: "nonsense" },
    "failed to parse 'nonsense' as JSON: invalid character 'o' in literal null (expecting 'u')",
  ],
];

describe("an annotation that cannot be", () => {
  it.each(RECORDED)("%s is refused before anything is taken, naming pod, annotation and value", (_, pod, text, netconf = {}) => {
    const [[name, value] = ["", ""]] = Object.entries(pod);
    const where = `(annotation cni.projectcalico.org/${name} of pod rec/pod1: ${JSON.stringify(value)})`;
    const error = refusalOf({ pod, netconf });
    expect(error).toMatchObject({ word: "annotation-invalid", code: 999 });
    expect(String(error)).toMatch(/^TortieError: /);
    expect(String(error).slice("TortieError: ".length, "TortieError: ".length + text.length)).toBe(text);
    expect(String(error).endsWith(where)).toBe(true);
  });

  it("names the namespace where the namespace has it", () => {
    expect(refusalOf({ namespace: { ipv4pools: "nonsense" } })).toMatchObject({
      message: expect.stringContaining("(annotation cni.projectcalico.org/ipv4pools of namespace rec: "),
    });
  });

  it("is not printed in all its length", () => {
    for (const value of ["x".repeat(100_000), JSON.stringify(["x".repeat(100_000)])]) {
      for (const name of ["allowedSourcePrefixes", "ipAddrs", "ipFamilies", "hwAddr"]) {
        expect(String(refusalOf({ pod: { [name]: value } })).length).toBeLessThan(1_500);
      }
    }
  });

  it.each([
    ["floating_ips", { floatingIPs: '["1.1.1.1"]' }, {}],
    ["floating_ips", { floatingIPs: "nonsense" }, { feature_control: { ip_addrs_no_ipam: true } }],
    ["ip_addrs_no_ipam", { ipAddrsNoIpam: '["10.99.0.1"]' }, { feature_control: { floating_ips: true } }],
  ])("or needs %s, which is off, is refused (recordings floating-off, noipam-off)", (feature, pod, netconf) => {
    expect(refusalOf({ pod, netconf })).toMatchObject({
      word: "feature-disabled",
      message: expect.stringMatching(new RegExp(`^requested feature is not enabled: ${feature} \\(annotation .* of pod rec/pod1\\)$`)),
    });
  });
});
