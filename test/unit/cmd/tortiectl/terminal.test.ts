import { columns, wantsColor } from "../../../../cmd/tortiectl/terminal.ts";

describe("output for people", () => {
  it.each([
    [{}, true, true],
    [{}, false, false],
    [{ TERM: "dumb" }, true, false],
    [{ NO_COLOR: "1" }, true, false],
    [{ NO_COLOR: "" }, true, true],
    [{ FORCE_COLOR: "1" }, false, true],
    [{ NO_COLOR: "1", FORCE_COLOR: "1" }, true, false],
    [{ CI: "true" }, false, false],
  ])("with %j and terminal %p has colours: %p", (environment, isTerminal, coloured) => {
    expect(wantsColor(environment, isTerminal)).toBe(coloured);
  });

  it("is aligned in columns without spaces at the end of a line", () => {
    expect(
      columns([
        ["a", "long cell", ""],
        ["bbb", "c", "d"],
      ]),
    ).toEqual(["  a    long cell", "  bbb  c          d"]);
  });
});
