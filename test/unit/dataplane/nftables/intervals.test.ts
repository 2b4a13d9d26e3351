import { edgesOf } from "../../../../dataplane/nftables/expressions.ts";
import { type Family, formatAddress, type Prefix, parsePrefix } from "../../../../lib/addresses/address.ts";

function prefixes(...texts: string[]): Prefix[] {
  return texts.flatMap((text) => parsePrefix(text) ?? []);
}

function edges(family: Family, ...texts: string[]): string[] {
  return edgesOf(family, prefixes(...texts)).map(({ key, isEnd }) => {
    const value = key.reduce((sum, octet) => (sum << 8n) | BigInt(octet), 0n);
    return `${isEnd ? "end" : "start"} ${formatAddress({ family, value })}`;
  });
}

describe("prefixes as intervals", () => {
  it("are in order, each with the first address that does not belong to it any more", () => {
    expect(edges(4, "10.1.0.0/16", "10.0.0.0/24")).toEqual(["start 10.0.0.0", "end 10.0.1.0", "start 10.1.0.0", "end 10.2.0.0"]);
  });

  it("merge where they touch or lie in each other", () => {
    expect(edges(4, "10.0.1.0/24", "10.0.0.0/24", "10.0.0.128/25", "10.0.0.0/8")).toEqual(["start 10.0.0.0", "end 11.0.0.0"]);
    expect(edges(4, "10.0.0.0/24", "10.0.1.0/24")).toEqual(["start 10.0.0.0", "end 10.0.2.0"]);
  });

  it("have no end where the last address of all belongs to them", () => {
    expect(edges(6, "::/0")).toEqual(["start ::"]);
    expect(edges(4, "255.255.255.255/32")).toEqual(["start 255.255.255.255"]);
  });

  it("are of one family only, and ignore host bits", () => {
    expect(edges(6, "10.0.0.0/8", "fd00::5/64")).toEqual(["start fd00::", "end fd00:0:0:1::"]);
  });
});
