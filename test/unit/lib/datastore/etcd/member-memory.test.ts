import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { memberMemory } from "../../../../../lib/datastore/etcd/members.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());
const path = () => join(directory.path, "run", "members.json");

describe("What processes tell each other of etcd's members", () => {
  it("is read as it was written, and nobody else may read it", () => {
    const restsUntil = performance.now() + 8_000;
    memberMemory(path()).write(new Map([["http://a:2379", { failures: 3, restsUntil }]]));
    const found = memberMemory(path()).read().get("http://a:2379");
    expect(found?.failures).toBe(3);
    // Rounded to milliseconds in the file.
    expect(Math.abs((found?.restsUntil ?? 0) - restsUntil)).toBeLessThanOrEqual(2);
    expect(statSync(path()).mode & 0o777).toBe(0o600);
  });

  it.each([
    ["is not there", undefined],
    ["is cut", '{"members": {"http://a:23'],
    ["is of another form", '{"members": ["http://a:2379"]}'],
    ["is of a clock that was ahead", `{"members": {"http://a:2379": {"failures": 1, "restsUntil": ${Date.now() + 3_600_000}}}}`],
    ["has figures that are none", '{"members": {"http://a:2379": {"failures": "many", "restsUntil": null}}}'],
    ["is too large", `{"members": {}, "x": "${"x".repeat(70_000)}"}`],
  ])("is nothing where the file %s", (_, text) => {
    memberMemory(path()).write(new Map());
    if (text === undefined) rmSync(path());
    else writeFileSync(path(), text);
    expect(memberMemory(path()).read()).toEqual(new Map());
  });

  it("is lost without a word where it cannot be written", () => {
    writeFileSync(join(directory.path, "run"), "a file in the way");
    memberMemory(path()).write(new Map([["http://a:2379", { failures: 1, restsUntil: 0 }]]));
    expect(memberMemory(path()).read()).toEqual(new Map());
    expect(readFileSync(join(directory.path, "run"), "utf8")).toBe("a file in the way");
  });
});
