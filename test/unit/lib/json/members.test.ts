import { isJsonObject, memberOf, stringifyJson, withMember } from "../../../../lib/json/value.ts";
import { jsonObject } from "../../../support/json-object.ts";

describe("memberOf", () => {
  it("finds a key in any letter case", () => {
    expect(memberOf(jsonObject('{"MTU": 1400}'), "mtu")).toBe(1400);
    expect(memberOf(jsonObject('{"mtu": 1400}'), "name")).toBeUndefined();
  });

  it("lets the last spelling win, and passes over null", () => {
    expect(memberOf(jsonObject('{"name": "a", "NAME": "b"}'), "name")).toBe("b");
    expect(memberOf(jsonObject('{"NAME": "b", "name": "a"}'), "name")).toBe("a");
    expect(memberOf(jsonObject('{"name": "a", "NAME": null}'), "name")).toBe("a");
    expect(memberOf(jsonObject('{"name": null}'), "name")).toBeNull();
  });

  it("merges objects given under two spellings (recording keys-case)", () => {
    const netconf = jsonObject('{"ipam": {"type": "calico-ipam", "x": {"a": 1}}, "Ipam": {"Assign_IPv6": "true", "x": {"b": 2}}}');
    expect(memberOf(netconf, "ipam")).toEqual({ type: "calico-ipam", Assign_IPv6: "true", x: { a: 1, b: 2 } });
  });

  it("merges deep objects without overflowing the stack", () => {
    const deep = `${'{"a":'.repeat(9_990)}1${"}".repeat(9_990)}`;
    expect(isJsonObject(memberOf(jsonObject(`{"ipam": ${deep}, "IPAM": ${deep}}`), "ipam"))).toBe(true);
  });
});

describe("withMember", () => {
  it.each([
    ['{"a": 1, "Key": 2, "b": 3, "KEY": 4}', '{"a":1,"key":9,"b":3}'],
    ['{"a": 1}', '{"a":1,"key":9}'],
    ["{}", '{"key":9}'],
    ['{"__proto__": {"x": 1}, "kEy": null}', '{"__proto__":{"x":1},"key":9}'],
  ])("sets a key of %s in place of all its spellings: %s", (text, expected) => {
    const given = jsonObject(text);
    expect(stringifyJson(withMember(given, "key", 9))).toBe(expected);
    expect(given).toEqual(jsonObject(text));
  });

  it("takes a key out", () => {
    expect(stringifyJson(withMember(jsonObject('{"a": 1, "Key": 2, "KEY": 4}'), "key", undefined))).toBe('{"a":1}');
  });
});
