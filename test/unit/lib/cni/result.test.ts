import { CNI_VERSIONS, type CniResult, type CniVersion } from "../../../../lib/cni/protocol.ts";
import { parseResult, renderResult } from "../../../../lib/cni/result.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { parseJson } from "../../../../lib/json/parse.ts";
import { thrownBy } from "../../../support/thrown.ts";
import recordings from "./fixtures/recorded-results.json";

const versionIn = (text: string): CniVersion => JSON.parse(text).cniVersion;
const parse = (text: string, configVersion?: CniVersion) => parseResult(parseJson(text), configVersion);

const FULL: CniResult = {
  interfaces: [
    { name: "cali1" },
    { name: "eth0", mac: "aa:bb:cc:dd:ee:ff", mtu: 1450, sandbox: "/run/netns/x", socketPath: "/run/s", pciID: "0000:00:1f.6" },
  ],
  ips: [
    { address: "10.0.0.5/32", gateway: "169.254.1.1", interface: 1 },
    { address: "fd00::5/128", interface: 0 },
    { address: "10.0.0.6/24" },
  ],
  routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1", mtu: 1400, advmss: 1360, priority: 100, table: 0, scope: 253 }, { dst: "::/0" }],
  dns: { nameservers: ["10.96.0.10"], domain: "cluster.local", search: ["svc"], options: ["ndots:5"] },
};

describe("results recorded from Calico's plugins", () => {
  it.each(Object.entries(recordings))("%s is printed byte for byte", (_, { stdout }) => {
    expect(renderResult(parse(stdout), versionIn(stdout))).toBe(stdout);
  });

  const inVersion = (scenario: keyof typeof recordings, version: CniVersion) => renderResult(parse(recordings[scenario].stdout), version);

  it.each([
    ["main/dual-1.0.0", "main/dual-0.3.1"],
    ["main/dual-1.0.0", "main/dual-0.2.0"],
    ["main/version-1.0.0", "main/version-0.3.0"],
    ["main/version-1.0.0", "main/version-0.1.0"],
    ["main/v6only", "main/v6only-0.2.0"],
    ["main/hostlocal-ranges-dual", "main/hostlocal-ranges-dual-0.2.0"],
    ["ipam/auto-dual-1.0.0", "ipam/auto-dual-0.4.0"],
    ["ipam/auto-dual-1.0.0", "ipam/auto-dual-0.3.0"],
    ["ipam/auto-dual-1.0.0", "ipam/auto-dual-0.1.0"],
    ["ipam/auto-dual-0.1.0", "ipam/auto-dual-1.0.0"],
    ["ipam/auto-dual-0.2.0", "ipam/auto-dual-0.4.0"],
    ["ipam/auto-v4-0.3.0", "ipam/auto-v4-1.0.0"],
    ["ipam/auto-v6-0.3.1", "ipam/auto-v6-0.2.0"],
  ] as const)("%s, converted, equals %s", (from, to) => {
    expect(inVersion(from, versionIn(recordings[to].stdout))).toBe(recordings[to].stdout);
  });
});

describe("conversion between versions", () => {
  it.each(["1.0.0", "1.1.0"] as const)("%s holds everything", (version) => {
    const text = renderResult(FULL, version);
    expect(parse(text)).toEqual(FULL);
    expect(Object.keys(JSON.parse(text))).toEqual(["cniVersion", "dns", "interfaces", "ips", "routes"]);
    expect(Object.keys(JSON.parse(text).routes[0])).toEqual(["advmss", "dst", "gw", "mtu", "priority", "scope", "table"]);
    expect(Object.keys(JSON.parse(text).interfaces[1])).toEqual(["mac", "mtu", "name", "pciID", "sandbox", "socketPath"]);
    expect(Object.keys(JSON.parse(text).dns)).toEqual(["domain", "nameservers", "options", "search"]);
  });

  it.each(["0.3.0", "0.3.1", "0.4.0"] as const)("%s loses mtu, socketPath and pciID of links", (version) => {
    const [host, pod] = FULL.interfaces;
    const { mtu: _mtu, socketPath: _socketPath, pciID: _pciID, ...link } = pod ?? { name: "" };
    expect(parse(renderResult(FULL, version))).toEqual({ ...FULL, interfaces: [host, link] });
  });

  it.each(["0.1.0", "0.2.0"] as const)("%s keeps one address a family, with its routes", (version) => {
    expect(JSON.parse(renderResult(FULL, version))).toEqual({
      cniVersion: version,
      ip4: { ip: "10.0.0.5/32", gateway: "169.254.1.1", routes: [{ dst: "0.0.0.0/0", gw: "169.254.1.1" }] },
      ip6: { ip: "fd00::5/128", routes: [{ dst: "::/0" }] },
      dns: FULL.dns,
    });
  });

  it("drops routes of a family without address, before 0.3.0", () => {
    const result = { ...FULL, ips: [{ address: "10.0.0.5/32" }] };
    expect(JSON.parse(renderResult(result, "0.2.0"))).not.toHaveProperty("ip6");
  });

  it("cannot say in 0.1.0 and 0.2.0 that there is no address", () => {
    for (const version of ["0.1.0", "0.2.0"] as const) {
      expect(() => renderResult({ ...FULL, ips: [] }, version)).toThrow(
        expect.objectContaining({ word: "result-invalid", message: expect.stringContaining("no valid IP addresses") }),
      );
    }
  });

  it("leaves out whatever is empty, except dns before 1.0.0", () => {
    const empty: CniResult = { interfaces: [], ips: [], routes: [], dns: {} };
    expect(renderResult(empty, "1.1.0")).toBe('{\n    "cniVersion": "1.1.0"\n}');
    expect(renderResult(empty, "0.4.0")).toBe('{\n    "cniVersion": "0.4.0",\n    "dns": {}\n}');
    const zeros: CniResult = {
      ...empty,
      interfaces: [{ name: "eth0", mac: "", mtu: 0, sandbox: "" }],
      ips: [{ address: "10.0.0.1/32", interface: 0 }],
    };
    expect(JSON.parse(renderResult(zeros, "1.0.0"))).toEqual({
      cniVersion: "1.0.0",
      interfaces: [{ name: "eth0" }],
      ips: [{ address: "10.0.0.1/32", interface: 0 }],
    });
  });

  it("survives every pair of versions with what the older one can hold", () => {
    const common: CniResult = {
      interfaces: [],
      ips: [{ address: "10.0.0.5/26" }, { address: "fd00::5/122" }],
      routes: [{ dst: "10.0.0.5/26" }],
      dns: {},
    };
    for (const first of CNI_VERSIONS) {
      for (const second of CNI_VERSIONS) {
        expect(parse(renderResult(parse(renderResult(common, first)), second))).toEqual(common);
      }
    }
  });
});

describe("parseResult", () => {
  it("reads what delegates of other versions print (recordings delegate-*)", () => {
    expect(
      parse(
        '{"cniVersion": "0.2.0", "ip4": {"ip": "10.60.0.5/26", "gateway": "10.60.0.1", "routes": [{"dst": "0.0.0.0/0"}]}, "dns": {"nameservers": ["1.1.1.1"]}}',
      ),
    ).toEqual({
      interfaces: [],
      ips: [{ address: "10.60.0.5/26", gateway: "10.60.0.1" }],
      routes: [{ dst: "0.0.0.0/0" }],
      dns: { nameservers: ["1.1.1.1"] },
    });
  });

  it("takes a result without version to have the configuration's", () => {
    expect(parse('{"ips": [{"address": "10.0.0.5/26"}]}', "1.0.0").ips).toEqual([{ address: "10.0.0.5/26" }]);
    expect(parse('{"cniVersion": "", "ip4": {"ip": "10.0.0.5/26"}}', "0.2.0").ips).toEqual([{ address: "10.0.0.5/26" }]);
    expect(parse('{"ip4": {"ip": "10.0.0.5/26"}}').ips).toEqual([{ address: "10.0.0.5/26" }]);
  });

  it("makes addresses canonical, host bits kept, and finds keys in any letter case", () => {
    expect(
      parse('{"CNIVersion": "1.0.0", "IPs": [{"Address": "FD00:0:0::0005/64", "gateway": "fd00:0::1"}], "routes": null}'),
    ).toMatchObject({
      ips: [{ address: "fd00::5/64", gateway: "fd00::1" }],
      routes: [],
    });
  });

  it.each([
    ["null", "CNI result: expected an object, found null"],
    ["[]", "CNI result: expected an object, found an array"],
    ['"x"', "CNI result: expected an object, found a string"],
    ['{"cniVersion": "1.2.0"}', 'CNI result: unsupported CNI result version "1.2.0"'],
    ['{"cniVersion": 1}', "CNI result: cniVersion: expected a string, found a number"],
    ['{"cniVersion": "1.0.0", "ips": {}}', "CNI result: ips: expected an array, found an object"],
    ['{"cniVersion": "1.0.0", "ips": ["10.0.0.1/32"]}', "CNI result: ips[0]: expected an object, found a string"],
    ['{"cniVersion": "1.0.0", "ips": [{}]}', "CNI result: ips[0].address: missing"],
    ['{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.1"}]}', "CNI result: ips[0].address: invalid CIDR address: 10.0.0.1"],
    ['{"cniVersion": "1.0.0", "ips": [{"address": "<nil>"}]}', "CNI result: ips[0].address: invalid CIDR address: <nil>"],
    ['{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.1/32", "gateway": "x"}]}', "CNI result: ips[0].gateway: invalid IP address: x"],
    [
      '{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.1/32", "interface": 1.5}]}',
      "ips[0].interface: expected an integer, found a number",
    ],
    ['{"cniVersion": "1.0.0", "interfaces": [{"name": "a", "mtu": 12345678901234567890}]}', "interfaces[0].mtu: expected an integer"],
    ['{"cniVersion": "1.0.0", "interfaces": [{"name": 5}]}', "interfaces[0].name: expected a string, found a number"],
    ['{"cniVersion": "1.0.0", "routes": [{"gw": "10.0.0.1"}]}', "CNI result: routes[0].dst: missing"],
    ['{"cniVersion": "1.0.0", "routes": [{"dst": "10.0.0.0/33"}]}', "routes[0].dst: invalid CIDR address: 10.0.0.0/33"],
    ['{"cniVersion": "1.0.0", "dns": []}', "CNI result: dns: expected an object, found an array"],
    ['{"cniVersion": "1.0.0", "dns": {"search": "x"}}', "CNI result: dns.search: expected an array, found a string"],
    ['{"cniVersion": "1.0.0", "dns": {"search": [1]}}', "CNI result: dns.search[0]: expected a string, found a number"],
    ['{"cniVersion": "0.2.0", "ip4": "10.0.0.1/32"}', "CNI result: ip4: expected an object, found a string"],
    ['{"cniVersion": "0.2.0", "ip4": {"routes": []}}', "CNI result: ip4.ip: missing"],
  ])("refuses %s", (text, message) => {
    const refusal = thrownBy(() => parse(text));
    expect(refusal).toBeInstanceOf(TortieError);
    expect(refusal).toMatchObject({ word: "result-invalid", code: 999, message: expect.stringContaining(message) });
  });
});
