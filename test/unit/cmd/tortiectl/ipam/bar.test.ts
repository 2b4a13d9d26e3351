import picocolors from "picocolors";
import { cells, legend, paint, type Shares, STANDINGS } from "../../../../../cmd/tortiectl/ipam/show.ts";

const NONE: Shares = { used: 0n, borrowed: 0n, cooling: 0n, reserved: 0n, free: 0n };
const PLAIN = picocolors.createColors(false);

function widths(shares: Partial<Shares>, width: number): Record<string, number> {
  const drawn = cells({ ...NONE, ...shares }, width);
  return Object.fromEntries(
    STANDINGS.flatMap((standing) => {
      const count = drawn.filter((one) => one === standing).length;
      return count === 0 ? [] : [[standing, count]];
    }),
  );
}

describe("a bar of addresses", () => {
  it.each([
    [{ free: 64n }, { free: 64 }],
    [
      { used: 32n, free: 32n },
      { used: 32, free: 32 },
    ],
    [
      { used: 3n, cooling: 1n, free: 65532n },
      { used: 1, cooling: 1, free: 62 },
    ],
    [
      { used: 65535n, free: 1n },
      { used: 63, free: 1 },
    ],
    [
      { used: 1n, borrowed: 1n, cooling: 1n, reserved: 1n, free: 2n ** 64n - 4n },
      { used: 1, borrowed: 1, cooling: 1, reserved: 1, free: 60 },
    ],
    [
      { used: 1n, borrowed: 1n, cooling: 1n },
      { used: 22, borrowed: 21, cooling: 21 },
    ],
  ])("of %p is drawn as %p", (shares, expected) => {
    const drawn = widths(shares, 64);
    expect(Object.keys(drawn)).toEqual(Object.keys(expected));
    expect(Object.values(drawn).reduce((sum, one) => sum + one, 0)).toBe(64);
    for (const [standing, count] of Object.entries(expected)) expect(Math.abs((drawn[standing] ?? 0) - count)).toBeLessThanOrEqual(1);
  });

  it("of no addresses is empty", () => {
    expect(cells(NONE, 64)).toEqual([]);
  });

  it("can be told apart without colours", () => {
    expect(paint(["used", "used", "borrowed", "cooling", "reserved", "free"], PLAIN)).toBe("██▓▒×·");
    expect(legend(new Set(["used", "free"]), PLAIN)).toBe("█ used  · free");
  });
});
