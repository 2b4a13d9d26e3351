import { RecentMap } from "../../../../lib/system/recent-map.ts";

describe("a map of limited size", () => {
  it("forgets what was set longest ago, however often it was read since", () => {
    const map = new RecentMap<string, number>(2);
    map.set("a", 1);
    map.set("b", 2);
    map.set("a", 3);
    expect(map.get("b")).toBe(2);

    map.set("c", 4);

    expect([map.get("a"), map.get("b"), map.get("c")]).toEqual([3, undefined, 4]);
    expect([map.has("a"), map.has("b")]).toEqual([true, false]);
  });
});
