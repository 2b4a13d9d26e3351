import { addressOf, hostRange, intervalsWithin, offsetOf } from "../../../../ipam-plugin/host-scope/range.ts";
import { formatAddress, parseAddress } from "../../../../lib/addresses/address.ts";
import { prefix } from "../../../support/addresses.ts";
import { words } from "../../../support/words.ts";

function rangeOf(cidr: string) {
  return hostRange(prefix(cidr));
}

describe("the range of a node", () => {
  it.each([
    ["10.0.0.0/29", 6],
    ["10.0.0.0/24", 254],
    ["10.0.0.0/30", 2],
    ["fd00::/120", 254],
    ["fd00::/112", 65_534],
    ["fd00::/64", 65_534],
    ["10.0.0.0/2", 2 ** 30 - 2],
  ])("%s gives %d addresses (A-I01)", (cidr, size) => {
    expect(rangeOf(cidr).size).toBe(size);
  });

  it.each(["10.0.0.0/31", "10.0.0.1/32", "0.0.0.0/0", "128.0.0.0/1", "fd00::/127", "fd00::1/128", "::/0", "8000::/1"])(
    "%s has no room (A-I01)",
    (cidr) => {
      expect(rangeOf(cidr).size).toBe(0);
    },
  );

  it("begins after the network address and ends before the broadcast address", () => {
    const range = rangeOf("10.9.8.3/29");
    expect(Array.from({ length: range.size }, (_, offset) => formatAddress(addressOf(range, offset)))).toEqual(words`
      10.9.8.1 10.9.8.2 10.9.8.3 10.9.8.4 10.9.8.5 10.9.8.6
    `);
    for (const outside of ["10.9.8.0", "10.9.8.7", "10.9.7.255", "10.9.8.8", "::a09:801"]) {
      expect(offsetOf(range, parseAddress(outside) ?? { family: 4, value: 0n })).toBeUndefined();
    }
  });

  it("finds the offset of each address it gives", () => {
    const range = rangeOf("fd00:1::/64");
    for (const offset of [0, 1, 255, 65_533]) expect(offsetOf(range, addressOf(range, offset))).toBe(offset);
    expect(offsetOf(range, parseAddress("fd00:1::ffff") ?? { family: 6, value: 0n })).toBeUndefined();
  });

  it("A-I03: forms addresses of a prefix whose first octet is 0", () => {
    const range = rangeOf("64:ff9b:1::/112");
    expect(formatAddress(addressOf(range, 0))).toBe("64:ff9b:1::1");
    expect(formatAddress(addressOf(range, 65_533))).toBe("64:ff9b:1::fffe");
  });

  it("clips, sorts and merges what is excluded from it", () => {
    const excluded = ["10.0.0.128/25", "10.0.0.16/28", "10.0.0.0/27", "10.1.0.0/24", "fd00::/64"].map(prefix);
    expect(intervalsWithin(rangeOf("10.0.0.0/24"), excluded)).toEqual([
      { start: 0, end: 31 },
      { start: 127, end: 254 },
    ]);
    expect(intervalsWithin(rangeOf("10.0.0.0/24"), [prefix("10.0.0.0/8")])).toEqual([{ start: 0, end: 254 }]);
  });
});
