/** Texts, figures and bursts as the page writes them. */
import { parseExact } from "../../../ui/answers.ts";
import { type Bar, barsOfHistory, burstsOf, ticksOf } from "../../../ui/bursts.ts";
import { duration, grouped, percent, plain } from "../../../ui/format.ts";

describe("texts of others", () => {
  it("show what would be invisible or turn the line round, and end somewhere", () => {
    expect(plain("a\u202eb\u0000c\u200bd\n")).toBe("a\\u202eb\\u0000c\\u200bd\\u000a");
    expect(plain("<script>")).toBe("<script>");
    expect(plain("x".repeat(65_536))).toBe(`${"x".repeat(400)}… (65536 characters)`);
  });
});

describe("figures", () => {
  it("keep every digit of what is larger than a number can hold", () => {
    const found = parseExact('{"a":1208925819614629174706176,"b":12,"c":"1208925819614629174706176"}');
    expect(found).toEqual({ a: 2n ** 80n, b: 12, c: "1208925819614629174706176" });
  });

  it("are grouped, and powers where they are long", () => {
    expect([grouped(65_536), grouped(2n ** 80n), grouped(2n ** 80n - 1n)]).toEqual(["65,536", "2^80", "about 2^80"]);
    expect([percent(0, 5), percent(1, 65_536), percent(1, 3), percent(5, 5)]).toEqual(["0 %", "<0.1 %", "33.3 %", "100.0 %"]);
    expect([duration(0.44), duration(999), duration(1_500), duration(90_000), duration(7_200_000)]).toEqual([
      "0.4 ms",
      "999 ms",
      "1.5 s",
      "1.5 min",
      "2 h",
    ]);
  });
});

describe("bursts", () => {
  const bar = (name: string, beginMs: number): Bar => ({ key: name, name, beginMs, steps: [], totalMs: 100, outcome: "ok" });

  it("are ADDs that begin soon after each other, the newest burst first", () => {
    const found = burstsOf([bar("late", 60_000), bar("b", 1_500), bar("a", 0), bar("c", 3_000)]);
    expect(found.map(({ bars, beginMs, endMs }) => [bars.map(({ name }) => name), beginMs, endMs])).toEqual([
      [["late"], 60_000, 60_100],
      [["a", "b", "c"], 0, 3_100],
    ]);
  });

  it("are read from the ADDs of the history alone", () => {
    const entry = { time: "2026-11-26T13:00:00.000Z", outcome: "ok", addresses: [], steps: [{ name: "ipam", milliseconds: 3 }] } as const;
    const found = barsOfHistory([
      { ...entry, event: "add", pod: "shop/web" },
      { ...entry, event: "del" },
    ]);
    expect(found).toMatchObject([{ name: "shop/web", totalMs: 3, beginMs: Date.parse(entry.time) }]);
  });

  it("have a few round marks on their axis", () => {
    expect(ticksOf(836)).toEqual([0, 200, 400, 600, 800]);
  });
});
