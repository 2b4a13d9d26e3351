import { DisjointPrefixes } from "../../../../agent/routes/model.ts";
import { formatPrefix, overlaps } from "../../../../lib/addresses/address.ts";
import { prefix } from "../../../support/addresses.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

describe("Prefixes without a common address", () => {
  it("find what overlaps on either side, inside and around, and nothing of the other family", () => {
    const known = new DisjointPrefixes<string>();
    for (const text of ["10.0.2.0/24", "10.0.0.0/24", "10.0.1.128/25", "fd00::/64"]) expect(known.add(prefix(text), text)).toBeUndefined();
    const found = (text: string) => known.overlapping(prefix(text))?.value;
    expect(["10.0.0.255/32", "10.0.1.0/24", "10.0.2.0/23", "10.0.2.0/24", "fd00::1/128"].map(found)).toEqual([
      "10.0.0.0/24",
      "10.0.1.128/25",
      "10.0.2.0/24",
      "10.0.2.0/24",
      "fd00::/64",
    ]);
    expect(["10.0.1.0/25", "10.0.3.0/24", "9.255.255.255/32", "fd00:1::/64"].map(found)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(known.add(prefix("10.0.0.0/16"), "late")).toMatchObject({ value: "10.0.0.0/24" });
    expect(found("10.0.77.0/24")).toBeUndefined();
  });

  it("say the same as comparing each with all", () => {
    const known = new DisjointPrefixes<number>();
    const kept: ReturnType<typeof prefix>[] = [];
    const random = seededRandom(7);
    const below = (limit: number) => Math.floor(random() * limit);
    for (let index = 0; index < 2_000; index++) {
      const one = { address: { family: 4 as const, value: (10n << 24n) | BigInt(below(0x10000)) }, length: 20 + below(13) };
      const isTaken = kept.some((other) => overlaps(other, one));
      expect(`${formatPrefix(one)} ${known.add(one, index) !== undefined}`).toBe(`${formatPrefix(one)} ${isTaken}`);
      if (!isTaken) kept.push(one);
    }
    expect(kept.length).toBeGreaterThan(100);
  });
});
