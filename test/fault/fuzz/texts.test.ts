/** Texts that plugins get from runtimes, tenants and administrators: only errors with a word come out, and the platform's parsers agree. */
import ipaddr from "ipaddr.js";
import { bytesOf, formatAddress, parseAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { parseJson } from "../../../lib/json/parse.ts";
import { JsonSyntaxError } from "../../../lib/json/syntax-error.ts";
import { type JsonValue, RawNumber, stringifyJson } from "../../../lib/json/value.ts";
import { parseSelector } from "../../../lib/selector/parser.ts";
import { parseCniArgs, withIgnoreUnknown } from "../../../lib/workload/requested.ts";
import { corpus, fuzz } from "./fuzz.ts";
import { mutateText } from "./mutate.ts";

describe("Fuzzing: whatever the text,", () => {
  it("JSON is accepted exactly when JSON.parse accepts it, and means the same", () => {
    const run = (input: string): void => {
      // What comes as UTF-8 has no half surrogate pairs but escaped ones.
      const text = input.toWellFormed();
      const platform = orUndefined(() => ({ value: JSON.parse(text) as unknown }));
      const ours = orUndefined(() => ({ value: parseJson(text) }), JsonSyntaxError);
      expect(ours === undefined).toBe(platform === undefined);
      if (ours === undefined || platform === undefined) throw new JsonSyntaxError("refused by both", text, 0);
      // Of a repeated key JSON.parse drops what came first, and Go merges objects.
      if (!repeatsKey(text, platform.value)) expect(asPlatform(ours.value)).toEqual(wellFormed(platform.value));
      expect(parseJson(stringifyJson(ours.value))).toEqual(ours.value);
    };
    const result = fuzz({ inputs: corpus<string>("json"), mutate: mutateText, answers: [JsonSyntaxError], run, count: 6_000 });
    expect(result.accepted).toBeGreaterThan(100);
    expect(result.refused).toBeGreaterThan(100);
  });

  it("an address is one exactly when ipaddr.js says so, with the same bits, and its own text says it again", () => {
    const run = (text: string): void => {
      parsePrefix(text);
      const ours = parseAddress(text);
      if (isComparable(text)) expect(ours !== undefined).toBe(isPlatformAddress(text));
      if (ours === undefined) throw new TortieError("arguments-invalid", "refused");
      if (isComparable(text)) expect([...bytesOf(ours)]).toEqual(ipaddr.process(text).toByteArray());
      expect(parseAddress(formatAddress(ours))).toEqual(ours);
    };
    const result = fuzz({ inputs: corpus<string>("address"), mutate: mutateText, answers: [TortieError], run, count: 20_000 });
    expect(result.accepted).toBeGreaterThan(100);
  });

  it("a selector is refused with a word, or answers for any labels", () => {
    const labels: readonly Record<string, string>[] = [{}, { a: "b", "a.b/c": "", __proto__: "x" }, { a: "bc", c: "d" }];
    const run = (text: string): void => {
      const selects = parseSelector(text);
      for (const each of labels) expect(typeof selects(each)).toBe("boolean");
    };
    const result = fuzz({ inputs: corpus<string>("selector"), mutate: mutateText, answers: [TortieError], run, count: 20_000 });
    expect(result.accepted).toBeGreaterThan(100);
  });

  it("CNI_ARGS are refused with a word, or read", () => {
    const run = (text: string) => parseCniArgs(withIgnoreUnknown(text));
    const result = fuzz({ inputs: corpus<string>("cni-args"), mutate: mutateText, answers: [TortieError], run, count: 20_000 });
    expect(result.accepted).toBeGreaterThan(100);
  });
});

function orUndefined<T>(read: () => T, answer: new (...args: never[]) => Error = SyntaxError): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof answer || (error instanceof Error && error.name === answer.name)) return undefined;
    throw error;
  }
}

/** Numbers as JSON.parse has them. */
function asPlatform(value: JsonValue): unknown {
  if (value instanceof RawNumber) return Number(value.text);
  if (Array.isArray(value)) return value.map(asPlatform);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, asPlatform(member)]));
}

/** Half a surrogate pair becomes U+FFFD, as Go has it; JSON.parse keeps the half. */
function wellFormed(value: unknown): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) return value.map(wellFormed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), wellFormed(member)]));
}

function repeatsKey(text: string, value: unknown): boolean {
  return [...text.matchAll(/"(?:[^"\\]|\\.)*"(?=[ \t\r\n]*:)/gs)].length !== keysIn(value);
}

function keysIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const below = Object.values(value).reduce((sum: number, member) => sum + keysIn(member), 0);
  return Array.isArray(value) ? below : below + Object.keys(value).length;
}

/** Zones, which no pod has, and IPv4 inside IPv6, where ipaddr.js takes leading zeros. */
function isComparable(text: string): boolean {
  return !text.includes("%") && !(text.includes(":") && text.includes("."));
}

function isPlatformAddress(text: string): boolean {
  return text.includes(":") ? ipaddr.IPv6.isValid(text) : ipaddr.IPv4.isValidFourPartDecimal(text);
}
