import { excerpt, formatFields } from "../../../../lib/log/format.ts";

describe("What is shown of a text that somebody else chose", () => {
  it.each([
    ["fits", "0123456789", "0123456789"],
    ["is too long", "0123456789a", "0123456789…"],
    ["breaks the line", "a\nb", "a\\u000ab"],
    ["is too long when its control characters are escaped", "a\u009b31mbc", "a\\u009b31m…"],
    ["holds nothing else", "\u0090".repeat(100), "\\u0090\\u00…"],
  ])("is one line of the length allowed when it %s", (_, text, shown) => {
    expect(excerpt(text, 10)).toBe(shown);
  });
});

describe("A field of a log line", () => {
  it.each([
    [1.1344560000000001, "1.134"],
    [0.30000000000000004, "0.3"],
    [5, "5"],
    [0.0004, "0"],
    [123456789.125, "123456789.125"],
  ])("has a number with three decimals at most: %p", (milliseconds, shown) => {
    expect(formatFields({ milliseconds })).toBe(`milliseconds=${shown}`);
  });

  it("says a reason once, however many layers repeat it", () => {
    const cause = new Error("statfs /run/netns/x: no such file or directory");
    const failed = (message: string) => formatFields({ error: new Error(message, { cause }) });

    expect(failed('failed to Statfs "/run/netns/x": no such file or directory')).not.toContain("statfs");
    expect(failed("no sandbox")).toBe('error="no sandbox: statfs /run/netns/x: no such file or directory"');
  });
});
