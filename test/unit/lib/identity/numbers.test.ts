/** Which number an identity has, and which of several objects stands for a set of labels. */
import { decodeIdentity, IdentityIndex, newIdentity, statePatch } from "../../../../lib/identity/identity-object.ts";
import { CANDIDATES, candidatesOf, rankOf, reservedNumber } from "../../../../lib/identity/numbers.ts";

const KEY = "k8s:app=web;k8s:namespace=shop;";
const SET = { key: KEY, labels: ["k8s:app=web", "k8s:namespace=shop"] };

const label = (text: string) => {
  const [source = "", key = ""] = text.split(":");
  return { source, key, value: "" };
};

describe("A reserved set", () => {
  it.each([
    ["host", 1],
    ["world", 2],
    ["unmanaged", 3],
    ["health", 4],
    ["init", 5],
    ["remote-node", 6],
  ])("I1: reserved:%s is %d without any store", (name, number) => {
    expect(reservedNumber([label(`reserved:${name}`)])).toBe(number);
  });

  it("I1: with reserved:host is the host whatever else it has, and no other is reserved with more than one label", () => {
    expect(reservedNumber([label("k8s:app"), label("reserved:host")])).toBe(1);
    expect(reservedNumber([label("k8s:app"), label("reserved:world")])).toBeUndefined();
    expect(reservedNumber([label("reserved:unknown")])).toBeUndefined();
    expect(reservedNumber([label("reserved:other")])).toBeUndefined();
    expect(reservedNumber([label("k8s:host")])).toBeUndefined();
    expect(reservedNumber([])).toBeUndefined();
  });
});

describe("The numbers that a set may have", () => {
  it("I4: are 64 in a row that follow from the labels alone, so that every writer tries the same ones", () => {
    const candidates = candidatesOf(KEY);
    const [first = 0] = candidates;
    expect(candidates).toEqual(Array.from({ length: CANDIDATES }, (_, index) => first + index));
    // SHA-256 of the key begins with 3250e7579238: computed with sha256sum, apart from this program.
    expect(first).toBe(65_536 + (0x3250e7579238 % 16_711_680));
    expect(candidatesOf(`${KEY}k8s-namespace:namespace/a=b;`)[0]).not.toBe(first);
  });

  it("are 24 bits wide and begin after those of other programs, also where the row reaches the end", () => {
    // Found by trying: its row begins seven numbers before the end.
    const wrapping = "k8s:x=1712359;";
    const candidates = candidatesOf(wrapping);
    expect(candidates).toContain(16_777_215);
    expect(candidates).toContain(65_536);
    expect(Math.max(...candidates)).toBe(16_777_215);
    expect(Math.min(...candidates)).toBe(65_536);
    expect(candidates.map((number) => rankOf(wrapping, number))).toEqual(candidates.map((_, index) => index));
  });

  it("have their place in the row, and any other number has none", () => {
    const candidates = candidatesOf(KEY);
    expect(candidates.map((number) => rankOf(KEY, number))).toEqual(candidates.map((_, index) => index));
    for (const other of [300, (candidates[0] ?? 0) - 1, (candidates.at(-1) ?? 0) + 1]) expect(rankOf(KEY, other)).toBe(Infinity);
  });
});

describe("The object of an identity", () => {
  const stored = (number: number, spec = {}, key = KEY) =>
    decodeIdentity({
      ...newIdentity(number, { ...SET, key }, "test", "2030-01-01T00:00:00Z"),
      metadata: { name: String(number), uid: `u${number}`, resourceVersion: "7" },
      spec: { key, labels: SET.labels, state: "active", createdBy: "test", createdAt: "2030-01-01T00:00:00Z", ...spec },
    });

  it("is read as it is written", () => {
    expect(stored(70_000)).toEqual({
      ...SET,
      number: 70_000,
      state: "active",
      retiredAt: "",
      createdBy: "test",
      createdAt: "2030-01-01T00:00:00Z",
      keeper: "",
      uid: "u70000",
      resourceVersion: "7",
    });
    expect(() => decodeIdentity({ metadata: { name: "web" }, spec: {} })).toThrow('the name "web" is no number');
  });

  it("is retired and revived at one version of it only", () => {
    expect(statePatch(stored(1), "2030-01-02T00:00:00Z")).toEqual({
      metadata: { resourceVersion: "7" },
      spec: { state: "retired", retiredAt: "2030-01-02T00:00:00Z" },
    });
    expect(statePatch(stored(1), undefined)).toEqual({ metadata: { resourceVersion: "7" }, spec: { state: "active", retiredAt: null } });
  });

  it("of two for one set the active one counts, then the one that is probed first, then the lower number", () => {
    const [first = 0, second = 0, third = 0] = candidatesOf(KEY);
    const retired = { state: "retired", retiredAt: "2030-01-01T00:00:00Z" };
    const chosen = (...identities: ReturnType<typeof stored>[]) =>
      [identities, identities.toReversed()].map((list) => new IdentityIndex(list).of(KEY)?.number);
    expect(chosen(stored(first), stored(second))).toEqual([first, first]);
    expect(chosen(stored(first, retired), stored(second))).toEqual([second, second]);
    expect(chosen(stored(first, retired), stored(second, retired))).toEqual([first, first]);
    expect(chosen(stored(300), stored(400), stored(second))).toEqual([second, second]);
    expect(chosen(stored(300), stored(400))).toEqual([300, 300]);
    const index = new IdentityIndex([stored(third), stored(first), stored(second), stored(300, {}, "other")]);
    expect(index.duplicates).toEqual(
      new Map([
        [third, first],
        [second, first],
      ]),
    );
    expect([index.get(300)?.key, index.get(301), index.of("other")?.number]).toEqual(["other", undefined, 300]);
  });
});
