/** Overlapping blocks with excepts as disjoint intervals: compared address by address with netmask and ipaddr.js. */
import { Netmask } from "netmask";
import { formatPrefix, maskPrefix } from "../../../lib/addresses/address.ts";
import { flatten, intervalOf } from "../../../policy/blocks.ts";
import { type BlockPeer, blockPeer } from "../../../policy/rules.ts";
import { address, prefix } from "../../support/addresses.ts";
import { isInside } from "../../support/policy/oracle.ts";
import { pick } from "../../support/policy/random-cluster.ts";
import { seededRandom } from "../../support/seeded-random.ts";

const masked = (text: string) => maskPrefix(prefix(text));
const block = (cidr: string, ...excepts: readonly string[]) => blockPeer(masked(cidr), excepts.map(masked));

function holds({ block: whole, excepts }: BlockPeer, text: string): boolean {
  return isInside(text, formatPrefix(whole)) && !excepts.some((except) => isInside(text, formatPrefix(except)));
}

/** Keys of the blocks that hold an address, by the intervals. */
function keysAt(blocks: readonly BlockPeer[], text: string): readonly string[] {
  return intervalOf(flatten(blocks), address(text))?.blocks ?? [];
}

describe("flattened blocks", () => {
  it("P11: nested excepts leave what brute force leaves, at and beside every edge", () => {
    const blocks = [
      block("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.255.0.0/16"),
      block("10.1.2.0/24", "10.1.2.0/28", "10.1.2.15/32"),
      block("0.0.0.0/0", "0.0.0.0/1", "255.255.255.255/32"),
      block("fd00::/8", "fd00::/16", "fd00::/64", "fdff::/16"),
      block("::/0", "ffff::/16"),
    ];
    const edges = blocks.flatMap(({ block: whole, excepts }) => [whole, ...excepts]).map(formatPrefix);
    const around = edges.flatMap((cidr) => {
      if (cidr.includes(":")) return [cidr.split("/")[0] ?? "", "fdff:ffff::1", "fcff:ffff::", "fd00:0:0:1::", "ffff::1"];
      const { base, broadcast, size } = new Netmask(cidr);
      const last = size > 2 ? (broadcast ?? base) : base;
      return [base, last, new Netmask(`${base}/32`).next(-1).base, new Netmask(`${last}/32`).next(1).base];
    });
    for (const text of [...around, "10.1.2.200", "192.0.2.1", "0.0.0.0", "255.255.255.255", "::", "ffff:ffff::"]) {
      const expected = blocks.filter((one) => holds(one, text)).map(({ key }) => key);
      expect([text, keysAt(blocks, text)]).toEqual([text, expected.sort()]);
    }
  });

  it("P11: random blocks hold what brute force says, in disjoint sorted intervals", () => {
    const random = seededRandom(11);
    for (let round = 0; round < 60; round++) {
      const within = (cidr: string) => {
        const { address: base, length } = masked(cidr);
        const inner = length + 1 + Math.floor(random() * (32 - length));
        const value = base.value + BigInt(Math.floor(random() * 2 ** (32 - length)));
        return formatPrefix(maskPrefix({ address: { family: 4, value }, length: inner }));
      };
      const blocks = Array.from({ length: 6 }, () => {
        const cidr = within("10.0.0.0/26");
        return block(cidr, ...(cidr.endsWith("/32") ? [] : Array.from({ length: Math.floor(random() * 4) }, () => within(cidr))));
      });
      const unique = [...new Map(blocks.map((one) => [one.key, one])).values()];
      const intervals = flatten(unique);
      for (let last = 0; last < 70; last++) {
        const expected = unique.filter((one) => holds(one, `10.0.0.${last}`)).map(({ key }) => key);
        expect({ round, last, keys: intervalOf(intervals, address(`10.0.0.${last}`))?.blocks ?? [] }).toEqual({
          round,
          last,
          keys: expected.sort(),
        });
      }
      intervals.forEach(({ first, last }, index) => {
        expect(first <= last && (index === 0 || first > (intervals[index - 1]?.last ?? 0n))).toBe(true);
      });
    }
  });

  it("an address of one family is in no block of the other", () => {
    const blocks = [block("0.0.0.0/0"), block("::/0")];
    expect(keysAt(blocks, "0.0.0.1")).toEqual(["block 0.0.0.0/0"]);
    expect(keysAt(blocks, "::1")).toEqual(["block ::/0"]);
    expect(keysAt([block("0.0.0.0/0")], "::1")).toEqual([]);
    expect(keysAt([], "::1")).toEqual([]);
  });

  it("a block that its excepts fill holds nothing", () => {
    expect(flatten([block("10.0.0.0/24", "10.0.0.0/25", "10.0.0.128/25")])).toEqual([]);
  });

  it("the same excepts in another order, or twice, are the same block", () => {
    const random = seededRandom(12);
    const excepts = ["10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"];
    const one = block("10.0.0.0/16", ...excepts);
    expect(block("10.0.0.0/16", ...[...excepts].reverse(), pick(random, excepts)).key).toBe(one.key);
    expect(block("10.0.0.0/16", ...excepts.slice(1)).key).not.toBe(one.key);
    // Keys that are too long are digests, and still tell blocks apart.
    const many = Array.from({ length: 100 }, (_, index) => `10.0.${index}.0/24`);
    expect(block("10.0.0.0/16", ...many).key).toBe(block("10.0.0.0/16", ...[...many].reverse()).key);
    expect(block("10.0.0.0/16", ...many).key).not.toBe(block("10.0.0.0/16", ...many.slice(1)).key);
    expect(block("10.0.0.0/16", ...many).key.length).toBeLessThan(100);
  });
});
