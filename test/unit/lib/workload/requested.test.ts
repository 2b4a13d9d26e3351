import { formatAddress } from "../../../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { parseCniArgs, requestedAddresses, requestedMac } from "../../../../lib/workload/requested.ts";

const addresses = (ips: readonly string[], args = "") =>
  requestedAddresses(decodeNetworkConfig({ runtimeConfig: { ips } }), parseCniArgs(args)).map(formatAddress);
const mac = (runtime: string | null, args = "") =>
  requestedMac(decodeNetworkConfig({ runtimeConfig: { mac: runtime } }), parseCniArgs(args));

describe("requestedAddresses", () => {
  it.each<[readonly string[], string, readonly string[]]>([
    [[], "", []],
    [[], "IP=10.0.0.9", ["10.0.0.9"]],
    [[], "IP=fd00::9", ["fd00::9"]],
    [["10.0.0.8"], "", ["10.0.0.8"]],
    [["10.0.0.8/24"], "", ["10.0.0.8"]],
    [["fd00::8/64", "10.0.0.8"], "", ["fd00::8", "10.0.0.8"]],
    [["::ffff:10.0.0.8"], "", ["10.0.0.8"]],
  ])("of the capability %j and CNI_ARGS %j: %j", (ips, args, expected) => {
    expect(addresses(ips, args)).toEqual(expected);
  });

  it("takes the capability alone when both ask, without merging families", () => {
    expect(addresses(["10.0.0.8"], "IP=fd00::9")).toEqual(["10.0.0.8"]);
  });

  it.each([
    [["10.0.0.8", "10.0.0.9"], "runtimeConfig.ips asks for two IPv4 addresses, 10.0.0.8 and 10.0.0.9; only one can be given"],
    [["10.0.0.8", "fd00::8", "fd00::9"], "two IPv6 addresses, fd00::8 and fd00::9"],
    [["10.0.0.8", "10.0.0.8"], "two IPv4 addresses"],
    [["10.0.0.8", "::ffff:10.0.0.9"], "two IPv4 addresses"],
    [["nonsense"], 'runtimeConfig.ips[0]: invalid IP address: "nonsense"'],
    [["10.0.0.8", ""], 'runtimeConfig.ips[1]: invalid IP address: ""'],
    [["10.0.0.8/33"], "invalid IP address"],
  ])("refuses %j", (ips, message) => {
    expect(() => addresses(ips)).toThrow(
      expect.objectContaining({ word: "addresses-requested-invalid", code: 999, message: expect.stringContaining(message) }),
    );
  });
});

describe("requestedMac", () => {
  it.each<[string | null, string, string | undefined]>([
    [null, "", undefined],
    ["", "MAC=", undefined],
    [null, "MAC=02-00-00-00-00-0A", "02:00:00:00:00:0a"],
    ["02:00:00:00:00:0B", "", "02:00:00:00:00:0b"],
    ["02:00:00:00:00:0b", "MAC=02:00:00:00:00:0a", "02:00:00:00:00:0b"],
    ["02:00:00:00:00:0b", "MAC=rubbish", "02:00:00:00:00:0b"],
  ])("of the capability %j and CNI_ARGS %j: %j", (runtime, args, expected) => {
    expect(mac(runtime, args)).toBe(expected);
  });

  it.each<[string | null, string, string]>([
    [null, "MAC=rubbish", "failed to parse MAC address rubbish provided via MAC in CNI_ARGS: invalid MAC address"],
    ["nonsense", "", "failed to parse MAC address nonsense provided via runtimeConfig.mac: invalid MAC address"],
    ["02:00:00:00:00:0b:01:02", "", "8 octets instead of 6"],
    ["01:00:5e:00:00:01", "", "a multicast or all-zero address cannot be that of an interface"],
    ["00:00:00:00:00:00", "", "multicast or all-zero"],
  ])("refuses %j and %j by name", (runtime, args, message) => {
    expect(() => mac(runtime, args)).toThrow(
      expect.objectContaining({ word: "mac-invalid", code: 999, message: expect.stringContaining(message) }),
    );
  });
});
