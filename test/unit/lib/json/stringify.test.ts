import { parseJson } from "../../../../lib/json/parse.ts";
import { RawNumber, stringifyJson } from "../../../../lib/json/value.ts";

describe("stringifyJson", () => {
  it("keeps the order of keys and leaves out what is undefined", () => {
    expect(stringifyJson({ b: 1, a: undefined, c: { z: true, y: null } })).toBe('{"b":1,"c":{"z":true,"y":null}}');
  });

  it("indents as Go does, empty lists and objects on one line", () => {
    const value = { a: [1, { b: "x" }], c: [], d: {} };
    expect(stringifyJson(value, 4)).toBe(JSON.stringify(value, null, 4));
  });

  it("writes big numbers exactly", () => {
    expect(stringifyJson([9223372036854775808n, new RawNumber("1755870000123456789"), 1.5])).toBe(
      "[9223372036854775808,1755870000123456789,1.5]",
    );
  });

  it("escapes what Go's json.Marshal escapes", () => {
    expect(stringifyJson('<a href="x">&\\\u2028\u2029\b\f\n\r\t\u0001\u007fé😀\ud800')).toBe(
      '"\\u003ca href=\\"x\\"\\u003e\\u0026\\\\\\u2028\\u2029\\b\\f\\n\\r\\t\\u0001\u007fé😀\ufffd"',
    );
    expect(stringifyJson({ "<": 1 })).toBe('{"\\u003c":1}');
  });

  it("refuses numbers that JSON does not have", () => {
    expect(() => stringifyJson([Number.NaN])).toThrow(RangeError);
    expect(() => stringifyJson(Number.POSITIVE_INFINITY)).toThrow(RangeError);
  });

  it("gives a text back unchanged that was written without white space", () => {
    const text = '{"z":[1.0,12345678901234567890,"\\u003c"],"a":{"x":null}}';
    expect(stringifyJson(parseJson(text))).toBe(text);
  });
});
