import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import { checkLocalPools } from "../../../../lib/config/ipam-section.ts";
import type { JsonValue } from "../../../../lib/json/value.ts";

describe("ipam.pools", () => {
  it("gets block size, name and masquerading by default", () => {
    expect(poolsOf([{ cidr: "10.244.0.0/16" }, { cidr: "FD80:0:0::/64" }])).toEqual([
      { cidr: "10.244.0.0/16", blockSize: 26, name: "10-244-0-0-16", natOutgoing: true },
      { cidr: "fd80::/64", blockSize: 122, name: "fd80---64", natOutgoing: true },
    ]);
  });

  it.each<[JsonValue]>([
    [[{ cidr: "10.244.0.0/16" }]],
    [[{ cidr: "10.244.0.0/20", blockSize: 20 }]],
    [[{ cidr: "10.244.0.0/32", blockSize: 32 }]],
    [[{ cidr: "fd00::/116", blockSize: 116 }]],
    [[{ cidr: "fd00::1/128", blockSize: 128 }]],
    [[{ cidr: "10.0.0.0/24" }, { cidr: "10.0.1.0/24" }, { cidr: "fd00::/64", name: "six" }]],
    [[]],
  ])("takes %j", (pools) => {
    expect(() => checkLocalPools(poolsOf(pools))).not.toThrow();
  });

  it.each<[JsonValue, string]>([
    [[{}], 'ipam.pools[0].cidr "" is not an address with a prefix length'],
    [[null], 'ipam.pools[0].cidr ""'],
    [[{ cidr: "10.244.0.0" }], 'ipam.pools[0].cidr "10.244.0.0" is not'],
    [[{ cidr: "10.244.0.0/33" }], 'ipam.pools[0].cidr "10.244.0.0/33" is not'],
    [
      [{ cidr: "10.244.0.0/16" }, { cidr: "10.245.1.0/16" }],
      "ipam.pools[1].cidr 10.245.1.0/16 has bits after its prefix length; did you mean 10.245.0.0/16?",
    ],
    [[{ cidr: "10.244.0.0/16", blockSize: 19 }], "ipam.pools[0].blockSize 19 is outside of 20 to 32 for IPv4"],
    [[{ cidr: "10.244.0.0/16", blockSize: 33 }], "blockSize 33 is outside"],
    [[{ cidr: "fd00::/64", blockSize: 115 }], "blockSize 115 is outside of 116 to 128 for IPv6"],
    [[{ cidr: "fd00::/64", blockSize: 129 }], "blockSize 129 is outside"],
    [[{ cidr: "10.244.0.0/28" }], "ipam.pools[0].blockSize 26 makes blocks larger than the pool 10.244.0.0/28"],
    [[{ cidr: "10.244.0.0/16", name: "My_Pool" }], 'ipam.pools[0].name "My_Pool" must be'],
    [[{ cidr: "10.244.0.0/16", name: "a".repeat(254) }], "at most 253 characters"],
    [
      [
        { cidr: "10.0.0.0/24", name: "a" },
        { cidr: "10.0.1.0/24", name: "a" },
      ],
      'ipam.pools[1] and ipam.pools[0] have the same name "a"',
    ],
    [[{ cidr: "10.0.0.0/16" }, { cidr: "10.0.1.0/24" }], "ipam.pools[1].cidr 10.0.1.0/24 overlaps with 10.0.0.0/16 of ipam.pools[0]"],
    [[{ cidr: "10.0.1.0/24" }, { cidr: "10.0.0.0/16" }], "ipam.pools[1].cidr 10.0.0.0/16 overlaps with 10.0.1.0/24"],
    [[{ cidr: "10.0.0.0/24" }, { cidr: "10.0.0.0/24", name: "other" }], "overlaps"],
    [[{ cidr: "169.254.7.0/24" }], "overlaps with the link-local addresses 169.254.0.0/16"],
    [[{ cidr: "fe80::/64" }], "overlaps with the link-local addresses fe80::/10"],
    [[{ cidr: "0.0.0.0/0" }], "overlaps with the link-local addresses"],
  ])("refuses %j", (pools, message) => {
    expect(() => checkLocalPools(poolsOf(pools))).toThrow(
      expect.objectContaining({ word: "netconf-value", message: expect.stringContaining(message) }),
    );
  });

  it("never fails the decoding, which DEL needs", () => {
    expect(poolsOf([{ cidr: "rubbish", blockSize: -5, name: "//" }])).toEqual([
      { cidr: "rubbish", blockSize: -5, name: "//", natOutgoing: true },
    ]);
  });
});

function poolsOf(pools: JsonValue) {
  return decodeNetworkConfig({ ipam: { pools } }).ipam.pools;
}
