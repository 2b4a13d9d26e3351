import { parseJson } from "../../../../lib/json/parse.ts";
import { JsonSyntaxError } from "../../../../lib/json/syntax-error.ts";
import { RawNumber, stringifyJson } from "../../../../lib/json/value.ts";
import { thrownBy } from "../../../support/thrown.ts";

const bytes = (...parts: (string | number[])[]) => Buffer.concat(parts.map((part) => Buffer.from(part as string)));

function syntaxError(input: Uint8Array | string): JsonSyntaxError {
  const error = thrownBy(() => parseJson(input));
  if (error instanceof JsonSyntaxError) return error;
  throw error;
}

describe("parseJson", () => {
  it("reads every kind of value", () => {
    const text = ' {"a": [1, -2.5, true, false, null, "x", {}, []], "b": {"c": "\\u00e9\\n\\"\\/"}}\r\n\t';
    expect(JSON.stringify(parseJson(text))).toBe(JSON.stringify(JSON.parse(text)));
  });

  it("reads bytes and text alike", () => {
    expect(parseJson(bytes('"é 😀"'))).toBe("é 😀");
    expect(parseJson('"é 😀"')).toBe("é 😀");
  });

  it.each(["12345678901234567890", "1.0", "1e3", "-0", "1E400", "0.10", "100000000000000000000000"])(
    "keeps the digits of %s, which JavaScript would print otherwise",
    (text) => {
      const value = parseJson(text);
      expect(value).toBeInstanceOf(RawNumber);
      expect(stringifyJson(value)).toBe(text);
    },
  );

  it.each(["0", "-1", "1.5", "9007199254740991", "1755870000123456", "1e+21"])("makes a number of %s", (text) => {
    expect(parseJson(text)).toBe(Number(text));
  });

  it("lets the last of two equal keys win, and merges objects (recordings stdin-duplicate, keys-case)", () => {
    expect(parseJson('{"mtu": 1300, "mtu": 1400}')).toEqual({ mtu: 1400 });
    expect(parseJson('{"a": {"x": 1, "d": {"y": 2}}, "a": {"x": 3, "d": {"z": 4}}}')).toEqual({ a: { x: 3, d: { y: 2, z: 4 } } });
    expect(parseJson('{"a": {"x": 1}, "a": [2]}')).toEqual({ a: [2] });
  });

  it("treats __proto__ as a key like any other", () => {
    const value = parseJson('{"__proto__": {"polluted": true}, "constructor": 1}');
    expect(stringifyJson(value)).toBe('{"__proto__":{"polluted":true},"constructor":1}');
    expect("polluted" in {}).toBe(false);
  });

  it.each([
    ["", "unexpected end of JSON input (line 1, column 1)"],
    ["{", "unexpected end of JSON input (line 1, column 2)"],
    ['{"a"', "unexpected end of JSON input"],
    ['"abc', "unexpected end of JSON input"],
    ["[1,", "unexpected end of JSON input"],
    ["tru", "unexpected end of JSON input"],
    ["-", "unexpected end of JSON input"],
    ["{}x", "invalid character 'x' after top-level value (line 1, column 3)"],
    ['{"name":"net1"} {}', "invalid character '{' after top-level value"],
    ["\ufeff{}", "invalid character 'ï' looking for beginning of value (line 1, column 1)"],
    ["nonsense", "invalid character 'o' in literal null (expecting 'u') (line 1, column 2)"],
    ['{"a": 1,\n "b": }', "invalid character '}' looking for beginning of value (line 2, column 7)"],
    ["\n\n x", "invalid character 'x' looking for beginning of value (line 3, column 2)"],
    ["[1,]", "invalid character ']' looking for beginning of value"],
    ["[1 2]", "invalid character '2' after array element"],
    ['{"a":1,}', "invalid character '}' looking for beginning of object key string"],
    ["{a:1}", "invalid character 'a' looking for beginning of object key string"],
    ['{"a" 1}', "invalid character '1' after object key"],
    ['{"a":1 "b":2}', "invalid character '\"' after object key:value pair"],
    ['{"a":1]', "invalid character ']' after object key:value pair"],
    ["'a'", "invalid character '\\'' looking for beginning of value"],
    ['"a\nb"', "invalid character '\\n' in string literal"],
    ['"a\u0000b"', "invalid character '\\u0000' in string literal"],
    ['"\\x"', "invalid character 'x' in string escape code"],
    ['"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"],
    ["01", "invalid character '1' after top-level value"],
    ["+1", "invalid character '+' looking for beginning of value"],
    ["1.", "unexpected end of JSON input"],
    ["1.x", "invalid character 'x' after decimal point in numeric literal"],
    ["1e+", "unexpected end of JSON input"],
    ["1ex", "invalid character 'x' in exponent of numeric literal"],
    ["-x", "invalid character 'x' in numeric literal"],
    ["NaN", "invalid character 'N' looking for beginning of value"],
    ["Infinity", "invalid character 'I' looking for beginning of value"],
    ["// x", "invalid character '/' looking for beginning of value"],
    ["\u00a01", "invalid character 'Â' looking for beginning of value"],
  ])("refuses %j as Go does", (text, message) => {
    expect(syntaxError(text).message).toContain(message);
    expect(syntaxError(bytes(text)).message).toContain(message);
  });

  it("tells line, column and offset of an error", () => {
    expect(syntaxError('{\n  "é": 1,\n  "b": ?\n}')).toMatchObject({ line: 3, column: 8, offset: 19 });
  });

  it("puts U+FFFD in the place of bytes that are not UTF-8, and of half surrogate pairs", () => {
    expect(parseJson(bytes('{"k', [0xff], '": "a', [0xc3], 'b"}'))).toEqual({ "k\ufffd": "a\ufffdb" });
    expect(parseJson('"\\ud800x \\ud83d\\ude00"')).toBe("\ufffdx 😀");
    expect(syntaxError(bytes([0xff, 0xfe], "{}")).offset).toBe(0);
  });

  it("accepts Go's depth of 10000 and refuses one more, without using the stack", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(stringifyJson(parseJson(nested(10_000)))).toBe(nested(10_000));
    expect(syntaxError(nested(10_001))).toMatchObject({ offset: 10_000, message: expect.stringContaining("exceeded max depth") });
    expect(syntaxError('{"a":'.repeat(2_000_000)).message).toContain("exceeded max depth");
  });

  it.each([
    ["one long string", `"${"a".repeat(10_000_000)}"`],
    ["five million escapes", `"${"\\n".repeat(5_000_000)}"`],
    ["many small objects", `[${Array.from({ length: 400_000 }, (_, i) => `{"id": ${i}, "n": null}`).join(",")}]`],
    // Work that grew with the square of the length would not end.
  ])("takes 10 MB of %s", (_, text) => {
    const value = parseJson(bytes(text));
    expect(JSON.stringify(value)).toBe(JSON.stringify(JSON.parse(text)));
  });
});
