import picocolors from "picocolors";
import { columns, harmless, wantsColor } from "../../../../cmd/tortiectl/terminal.ts";

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

describe("what is written to a terminal", () => {
  it.each([
    ["\x1b]0;OWNED\x07tim", "\\u001b]0;OWNED\\u0007tim"],
    ["\x1b[2J\x1b[8mhidden\x1b[31;8mtoo", "\\u001b[2J\\u001b[8mhidden\\u001b[31;8mtoo"],
    ["\u009b2J, \u0085, \u2028 and \x7f", "\\u009b2J, \\u0085, \\u2028 and \\u007f"],
    ["one\rtwo", "one\\u000dtwo"],
  ])("S12: has no control characters of others: %j", (text, written) => {
    expect(harmless(text)).toBe(written);
  });

  it("S12: keeps our colours, line ends and tabs", () => {
    const { bold, red, green, yellow, dim } = picocolors.createColors(true);
    const text = `${bold(red("red"))}\t${green("green")}\n${yellow("yellow")} ${dim("dim")} ü 日本`;
    expect(harmless(text)).toBe(text);
  });
});
