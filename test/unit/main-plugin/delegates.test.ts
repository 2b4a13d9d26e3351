import { parseJson } from "../../../lib/json/parse.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import { isJsonObject, stringifyJson } from "../../../lib/json/value.ts";
import { readIpamSection, usesPodCidr, withoutPodCidrs, withPodCidrs } from "../../../main-plugin/delegates.ts";

const DUAL = ["10.10.0.0/24", "dead:beef::/96"];

function replaced(ipam: JsonObject, podCIDRs: readonly string[] = DUAL): JsonObject {
  return withPodCidrs(ipam, "node1", podCIDRs);
}

describe("pod CIDRs for an ADD", () => {
  it.each<[JsonObject, JsonObject]>([
    [{ subnet: "usePodCidr" }, { subnet: "10.10.0.0/24" }],
    [{ subnet: "USEpodcidr" }, { subnet: "10.10.0.0/24" }],
    [{ subnet: "usePodCidrIPv6" }, { subnet: "dead:beef::/96" }],
    [
      { ranges: [[{ subnet: "usePodCidr" }], [{ subnet: "usepodcidripv6", rangeStart: "dead:beef::9" }]] },
      { ranges: [[{ subnet: "10.10.0.0/24" }], [{ subnet: "dead:beef::/96", rangeStart: "dead:beef::9" }]] },
    ],
    [
      { subnet: "usePodCidr", ranges: [[{ subnet: "10.80.0.0/24" }, { gateway: "10.80.0.1" }]] },
      { subnet: "10.10.0.0/24", ranges: [[{ subnet: "10.80.0.0/24" }, { gateway: "10.80.0.1" }]] },
    ],
  ])("of %j give %j (recordings hostlocal-podcidr*, spy-hostlocal)", (ipam, expected) => {
    expect(replaced({ type: "host-local", ...ipam })).toEqual({ type: "host-local", ...expected });
  });

  it("are the first of each family", () => {
    expect(replaced({ subnet: "usePodCidr" }, ["fd00::/64", "10.1.0.0/24", "10.2.0.0/24"])).toEqual({ subnet: "10.1.0.0/24" });
  });

  it("leave everything else as it is, digit for digit", () => {
    const ipam = parseJson('{"type":"host-local","subnet":"usePodCidr","big":12345678901234567890,"routes":[{"dst":"10.123.0.0/16"}]}');
    expect(isJsonObject(ipam) && stringifyJson(replaced(ipam))).toBe(
      '{"type":"host-local","subnet":"10.10.0.0/24","big":12345678901234567890,"routes":[{"dst":"10.123.0.0/16"}]}',
    );
  });

  it.each([
    ["no podCidr for node node1", { subnet: "usePodCidr" }, []],
    ["ClusterCIDR contains two ranges of the same type", { subnet: "usePodCidr" }, ["10.1.0.0/24", "10.2.0.0/24"]],
    ["ClusterCIDR contains two ranges of the same type", { subnet: "usePodCidr" }, ["fd01::/64", "fd02::/64"]],
    ["usePodCidr found but there is no IPv4 CIDR configured: node node1 has fd01::/64", { subnet: "usePodCidr" }, ["fd01::/64"]],
    [
      "usePodCidrIPv6 found but there is no IPv6 CIDR configured: node node1 has 10.1.0.0/24",
      { ranges: [[{ subnet: "usePodCidr" }], [{ subnet: "usePodCidrIPv6" }]] },
      ["10.1.0.0/24"],
    ],
    ["invalid CIDR address: nonsense (spec.podCIDRs of node node1)", { subnet: "usePodCidr" }, ["nonsense"]],
  ])("that are missing are named: %s (recording hostlocal-podcidr-none)", (message, ipam, podCIDRs) => {
    expect(() => replaced(ipam, podCIDRs)).toThrow(
      expect.objectContaining({
        word: "pod-cidr-missing",
        message: expect.stringMatching(new RegExp(`^${message.replace(/[()]/g, "\\$&")}`)),
      }),
    );
  });

  it.each([
    [{ ranges: "x" }, "ranges section; was expecting a list, not: x"],
    [{ ranges: ["x"] }, "range set; was expecting a list, not: x"],
    [{ ranges: [["x"]] }, "data; was expecting a dict, not: x"],
  ])("cannot be put into %j (recordings hostlocal-ranges-*)", (ipam, message) => {
    expect(() => replaced(ipam)).toThrow(`failed to parse host-local IPAM ${message}`);
  });
});

describe("the routes of the section", () => {
  const read = (ipam: JsonObject, hasCluster = true) => readIpamSection({ netconf: { ipam: { type: "host-local", ...ipam } } }, hasCluster);

  it("are the destinations of the container's routes, in order", () => {
    const routes: readonly JsonObject[] = [{ dst: "10.1.0.0/16", gw: "nonsense" }, {}, { dst: null }, { dst: "fd00::/64" }];
    expect(read({ routes })).toEqual({ destinations: ["10.1.0.0/16", "fd00::/64"], needsPodCidrs: false });
    expect(read({})).toEqual({ destinations: [], needsPodCidrs: false });
    expect(readIpamSection({ netconf: { ipam: { type: "dhcp", routes: "x" } } }, true).destinations).toEqual([]);
  });

  it.each([
    [{ routes: "x" }, "netconf-type", "routes section; was expecting a list"],
    [{ routes: ["x"] }, "netconf-type", "routes section; was expecting a dict"],
    [{ routes: [{ dst: 7 }] }, "netconf-type", "expecting 'dst' to be a string, not: 7"],
    [{ routes: [{ dst: "10.1.0.0" }] }, "netconf-value", "invalid CIDR address: 10.1.0.0"],
  ])("cannot be read from %j", (ipam, word, message) => {
    expect(() => read(ipam)).toThrow(expect.objectContaining({ word, message: expect.stringContaining(message) }));
  });

  it("go with a pod CIDR where there is a cluster to know it", () => {
    expect(read({ subnet: "usePodCidr" }).needsPodCidrs).toBe(true);
    expect(() => read({ subnet: "usePodCidr" }, false)).toThrow(expect.objectContaining({ word: "pod-cidr-missing" }));
  });
});

describe("the keywords", () => {
  it("are found in the subnet and in every range", () => {
    expect(usesPodCidr({ subnet: "usePodCidr" })).toBe(true);
    expect(usesPodCidr({ ranges: [[{ subnet: "10.0.0.0/24" }], [{ subnet: "UsePodCidrIPv6" }]] })).toBe(true);
    expect(usesPodCidr({ subnet: "10.0.0.0/24", ranges: [[{}]] })).toBe(false);
  });

  it("are dropped for a DEL, which needs no CIDR and must not make ranges overlap (design §8)", () => {
    expect(withoutPodCidrs({ type: "host-local", ranges: [[{ subnet: "usePodCidr" }], [{ subnet: "10.80.0.0/24" }]] })).toEqual({
      type: "host-local",
      ranges: [[{ subnet: "10.80.0.0/24" }]],
    });
    expect(withoutPodCidrs({ subnet: "usePodCidr" })).toEqual({ ranges: [[{ subnet: "0.0.0.0/0" }]] });
    expect(withoutPodCidrs({ subnet: "10.80.0.0/24", ranges: [[{ subnet: "usePodCidrIPv6" }]] })).toEqual({ subnet: "10.80.0.0/24" });
  });
});
