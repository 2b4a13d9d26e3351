import ipaddr from "ipaddr.js";
import { Netmask } from "netmask";
import {
  addressAt,
  contains,
  covers,
  formatAddress,
  formatPrefix,
  maskPrefix,
  overlaps,
  parseAddress,
  parsePrefix,
  sizeOf,
} from "../../../../lib/addresses/address.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

const COUNT = 2_000;

function prefixOf(text: string) {
  const prefix = parsePrefix(text);
  if (prefix === undefined) throw new Error(text);
  return prefix;
}

function addressOf(text: string) {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(text);
  return address;
}

describe("IPv4 prefixes, judged by netmask", () => {
  const random = seededRandom(28);
  const octets = () => Array.from({ length: 4 }, () => Math.floor(random() * 256)).join(".");
  // Lengths near each other, so that one prefix often lies in the other.
  const text = (near = "") => `${near || octets()}/${8 + Math.floor(random() * 25)}`;

  it("have the base, the size and the addresses that it says", () => {
    for (let i = 0; i < COUNT; i++) {
      const [given, judge] = ((one) => [prefixOf(one), new Netmask(one)] as const)(text());
      expect(formatPrefix(maskPrefix(given))).toBe(`${judge.base}/${judge.bitmask}`);
      expect(sizeOf(given)).toBe(BigInt(judge.size));
      const last = formatAddress(addressAt(maskPrefix(given), judge.size - 1));
      expect(last).toBe(judge.broadcast ?? judge.last);
    }
  });

  it("hold the addresses and prefixes that it says they hold", () => {
    const held = { contains: 0, covers: 0, overlaps: 0 };
    for (let i = 0; i < COUNT; i++) {
      const [one, address] = [text(), octets()];
      const other = text(random() < 0.5 ? one.split("/")[0] : "");
      const [judge, rival] = [new Netmask(one), new Netmask(other)];
      const near = random() < 0.5 ? judge.first : address;
      expect(contains(maskPrefix(prefixOf(one)), addressOf(near))).toBe(judge.contains(near));
      const [mine, theirs] = [maskPrefix(prefixOf(one)), maskPrefix(prefixOf(other))];
      const isCovered = judge.contains(rival.base) && rival.bitmask >= judge.bitmask;
      expect(covers(mine, theirs)).toBe(isCovered);
      expect(overlaps(mine, theirs)).toBe(judge.contains(rival.base) || rival.contains(judge.base));
      held.contains += Number(judge.contains(near));
      held.covers += Number(isCovered);
      held.overlaps += Number(overlaps(mine, theirs));
    }
    // Otherwise the sample would say nothing.
    for (const count of Object.values(held)) expect(count).toBeGreaterThan(COUNT / 10);
  });
});

describe("IPv6 prefixes, judged by ipaddr.js", () => {
  const random = seededRandom(29);
  const address = () => new ipaddr.IPv6(Array.from({ length: 16 }, () => Math.floor(random() * 256)));

  it("have the base that it says, and hold the addresses that it says they hold", () => {
    let held = 0;
    for (let i = 0; i < COUNT; i++) {
      const length = 1 + Math.floor(random() * 128);
      const text = `${address().toRFC5952String()}/${length}`;
      const base = ipaddr.IPv6.networkAddressFromCIDR(text);
      expect(formatPrefix(maskPrefix(prefixOf(text)))).toBe(`${base.toRFC5952String()}/${length}`);
      const near = random() < 0.5 ? ipaddr.IPv6.broadcastAddressFromCIDR(text) : address();
      const isHeld = near.match(base, length);
      expect(contains(maskPrefix(prefixOf(text)), addressOf(near.toRFC5952String()))).toBe(isHeld);
      held += Number(isHeld);
    }
    expect(held).toBeGreaterThan(COUNT / 3);
  });
});
