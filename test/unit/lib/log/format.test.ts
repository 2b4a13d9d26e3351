import { excerpt } from "../../../../lib/log/format.ts";

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
