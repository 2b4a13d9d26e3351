/** Directories of endpoints on a real file system: what is found, what is put aside, and how much of it is kept (A§5.7). */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EndpointDirectories } from "../../../../agent/endpoints/record/directories.ts";

let root = "";
let directories: EndpointDirectories;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "tortie-endpoints-"));
  directories = new EndpointDirectories(root);
});
afterEach(() => rmSync(root, { recursive: true }));

describe("The directories of endpoints", () => {
  it("are found by their names, whatever else lies there", () => {
    directories.create(4);
    for (const variant of ["_next", "_next_fail", "_stale"] as const) directories.create(7, variant);
    for (const name of ["gone", "04", "123456", "5_other", "x"]) mkdirSync(join(root, name));
    const found = directories.list().map(({ id, variant }) => `${id}${variant}`);
    expect(found.sort()).toEqual(["4", "7_next", "7_next_fail", "7_stale"]);
    expect([directories.has(4), directories.has(7), directories.has(5)]).toEqual([true, true, false]);
    expect(() => directories.create(4)).toThrow(expect.objectContaining({ code: "EEXIST" }));
    expect(statSync(directories.path(4)).mode & 0o777).toBe(0o700);
  });

  it("are none where there is no place for them yet, and an error where that cannot be read", () => {
    expect(new EndpointDirectories(join(root, "nothing")).list()).toEqual([]);
    writeFileSync(join(root, "file"), "");
    expect(() => new EndpointDirectories(join(root, "file")).list()).toThrow(expect.objectContaining({ code: "ENOTDIR" }));
  });

  it("change places, and have an age until they are gone", () => {
    directories.create(4, "_next");
    directories.rename(4, "_next", "");
    expect(directories.list()).toEqual([{ id: 4, variant: "" }]);
    const changed = statSync(directories.path(4)).mtimeMs;
    expect(directories.ageOf(4, "", changed + 5)).toBe(5);
    directories.remove(4);
    expect(directories.ageOf(4, "", changed)).toBeUndefined();
  });

  it("of an endpoint that has ended are put aside, and its variants go", () => {
    directories.create(4);
    for (const variant of ["_next", "_next_fail", "_stale"] as const) directories.create(4, variant);
    directories.retire(4, 1000);
    expect([directories.list(), directories.listGone(), directories.listBad()]).toEqual([[], ["4-1000"], []]);
    directories.create(4);
    directories.retire(4, 1000);
    expect(directories.listGone().sort()).toEqual(["4-1000", "4-1000.1"]);
  });

  it("that cannot be read are kept, the last ten of them, those of an earlier process included", () => {
    for (let number = 1; number <= 12; number++) {
      const all = number % 4 === 0 ? new EndpointDirectories(root) : directories;
      if (number % 4 === 0) directories = all;
      all.create(number);
      expect(all.setAsideBad(number, 1000 + number)).toBe(join(root, "bad", `${number}-${1000 + number}`));
    }
    expect(directories.listBad().sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))).toEqual(
      Array.from({ length: 10 }, (_, index) => `${index + 3}-${1003 + index}`),
    );
  });

  it("of the last 256 that ended are kept", () => {
    for (let number = 1; number <= 258; number++) {
      directories.create(number);
      directories.retire(number, number);
    }
    expect(directories.listGone()).toHaveLength(256);
    expect(directories.listGone()).not.toContain("2-2");
  });
});
