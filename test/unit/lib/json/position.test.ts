import { positionOf } from "../../../../lib/json/position.ts";

const TEXT = `{
  "a": {"x": [1, "],}", {"y": null}], "\\u0062": true},
  "c" :
    [ ],
  "d": "}", "a": 2
}`;

describe("positionOf", () => {
  it.each([
    [[], 1, 1],
    [["a"], 2, 3],
    [["a", "x"], 2, 9],
    [["a", "x", 0], 2, 15],
    [["a", "x", 1], 2, 18],
    [["a", "x", 2, "y"], 2, 26],
    [["a", "b"], 2, 39],
    [["c"], 3, 3],
    [["d"], 5, 3],
  ])("of %j is line %d, column %d", (path, line, column) => {
    expect(positionOf(TEXT, path)).toEqual({ line, column });
  });

  it.each([[["e"]], [["c", 0]], [["a", 0]], [["d", "x"]], [["a", "x", 3]], [[0]]])("of %j, which is not there, is none", (path) => {
    expect(positionOf(TEXT, path)).toBeUndefined();
  });
});
