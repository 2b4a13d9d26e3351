import { parseSelector } from "../../../../lib/selector/parser.ts";
import { selects } from "../../../../lib/selector/selector.ts";

const labels = { zone: "eu-1", "kubernetes.io/role": "edge", in: "yes", empty: "" };

describe("a selector", () => {
  it.each([
    ["", true],
    ["  ", true],
    ["all()", true],
    [" all( ) ", true],
    ["global()", true],
    ["!all()", false],
    ["zone == 'eu-1'", true],
    ['zone == "eu-1"', true],
    ["zone=='eu-2'", false],
    ["missing == 'x'", false],
    ["zone != 'eu-2'", true],
    ["zone != 'eu-1'", false],
    ["zone in {'eu-1', 'eu-2'}", true],
    ["zone in {'eu-2'}", false],
    ["zone in {}", false],
    ["zone in {'eu-1',}", true],
    ["zone not in {'eu-2'}", true],
    ["zone notin {'eu-1'}", false],
    ["zone not  in {'eu-1'}", false],
    ["zone contains 'u-'", true],
    ["zone contains 'x'", false],
    ["zone starts with 'eu'", true],
    ["zone startswith 'eu'", true],
    ["zone ends with '-1'", true],
    ["zone ends with 'eu'", false],
    ["empty == ''", true],
    ["has(zone)", true],
    ["has( kubernetes.io/role )", true],
    ["has(missing)", false],
    ["has(toString)", false],
    ["!has(missing)", true],
    ["!!has(zone)", true],
    ["in in {'yes'}", true],
    ["has(zone) && zone == 'eu-1'", true],
    ["has(missing) || has(zone)", true],
    // && binds tighter than ||.
    ["has(zone) || has(missing) && has(missing)", true],
    ["(has(zone) || has(missing)) && has(missing)", false],
    ["!(zone == 'eu-1')", false],
    ["! zone == 'eu-1'", false],
    ["zone == 'eu-1'&&kubernetes.io/role=='edge'", true],
  ])("%p gives %p", (text, expected) => {
    expect(parseSelector(text)(labels)).toBe(expected);
  });

  it.each(["missing != 'x'", "missing not in {'x'}"])("%p holds for a label that is missing", (text) => {
    expect(parseSelector(text)({})).toBe(true);
  });

  it.each(["missing == ''", "missing contains ''", "missing starts with ''", "missing ends with ''", "missing in {''}"])(
    "%p does not hold for a label that is missing",
    (text) => {
      expect(parseSelector(text)({})).toBe(false);
    },
  );

  it.each([
    ["zone ==", 8, "expected string"],
    ["zone == x", 9, "expected string"],
    ["zone", 5, "expected an operator"],
    ["zone in 'a'", 9, "expected set literal"],
    ["zone in {'a'", 13, "expected }"],
    ["zone in {'a' 'b'}", 14, "expected }"],
    ["(zone == 'a'", 13, "expected )"],
    ["zone == 'a')", 12, "expected an operator or the end"],
    ["zone == 'a' has(x)", 13, "expected an operator or the end"],
    ["zone == 'a", 9, "unterminated string"],
    ["zone = 'a'", 6, 'unexpected character "="'],
    ["&& zone == 'a'", 1, "expected a label name, a function or ("],
    ["has()", 5, "expected a label name"],
    ["any()", 1, "unknown function any()"],
    ["zone == 'ü' && ?", 16, 'unexpected character "?"'],
    [`${"x".repeat(513)} == 'a'`, 1, "name longer than 512 characters"],
    [`${"(".repeat(101)}has(x)${")".repeat(101)}`, 102, "nested deeper than 100 parentheses"],
  ])("%p is refused at position %p", (text, position, problem) => {
    expect(() => parseSelector(text)).toThrow(
      expect.objectContaining({ word: "selector-syntax", message: `selector "${text}", position ${position}: ${problem}` }),
    );
  });

  it("reads no labels when it selects everything", async () => {
    const read = () => Promise.reject(new Error("labels were read"));
    expect(await selects("all()", "nodeSelector", read)).toBe(true);
    expect(await selects("", "nodeSelector", read)).toBe(true);
    await expect(selects("has(x)", "nodeSelector", read)).rejects.toThrow("labels were read");
  });

  it("names where it stands when it cannot be read", async () => {
    await expect(selects("zone ==", 'nodeSelector of pool "p4"', async () => ({}))).rejects.toThrow(
      'nodeSelector of pool "p4": selector "zone ==", position 8: expected string',
    );
  });
});
