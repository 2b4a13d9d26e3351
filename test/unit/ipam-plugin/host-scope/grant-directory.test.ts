/** Grant files on a real file system: what is not there is nothing, and every other failure is one. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { draftTime, openGrantDirectory, readGrant } from "../../../../ipam-plugin/host-scope/grant-directory.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const root = fresh(() => new TemporaryDirectory());

describe("A directory of grants", () => {
  it("is made with the first file, and takes each name once", async () => {
    const directory = openGrantDirectory(join(root.path, "ipam"));
    expect(await directory.list(4)).toEqual([]);
    expect(await directory.read(4, "10.60.0.1")).toBeUndefined();
    await directory.write(4, "a", "first");
    await expect(directory.write(4, "a", "again")).rejects.toMatchObject({ code: "EEXIST" });
    expect(await directory.link(4, "a", "10.60.0.1")).toBe(true);
    expect(await directory.link(4, "a", "10.60.0.1")).toBe(false);
    await expect(directory.link(4, "nothing", "b")).rejects.toMatchObject({ code: "ENOENT" });
    expect(readFileSync(join(root.path, "ipam/v4/10.60.0.1"), "utf8")).toBe("first");
    expect([await directory.rename(4, "a", "c"), await directory.rename(4, "a", "c")]).toEqual([true, false]);
    await directory.remove(4, "c");
    await directory.remove(4, "c");
    expect([await directory.list(4), await directory.list(6)]).toEqual([["10.60.0.1"], []]);
  });

  it("fails where its place is none of a directory", async () => {
    writeFileSync(join(root.path, "file"), "");
    const directory = openGrantDirectory(join(root.path, "file"));
    await expect(directory.list(4)).rejects.toMatchObject({ code: "ENOTDIR" });
    await expect(directory.read(4, "a")).rejects.toMatchObject({ code: "ENOTDIR" });
    await expect(directory.rename(4, "a", "b")).rejects.toMatchObject({ code: "ENOTDIR" });
    await expect(directory.remove(4, "a")).rejects.toMatchObject({ code: "ENOTDIR" });
  });

  it("tells a draft by its name, and when it was begun", () => {
    const before = Date.now();
    const begun = draftTime(openGrantDirectory(root.path).draftName()) ?? 0;
    expect(begun).toBeGreaterThanOrEqual(before);
    expect(begun).toBeLessThanOrEqual(Date.now());
    expect(draftTime(".new-1700000000000-1-2-3")).toBe(1_700_000_000_000);
    expect(draftTime("10.60.0.1")).toBeUndefined();
  });

  it("has no grant of what is no address, or of one that is free", () => {
    for (const text of ["nonsense", "10.60.0.1", "fd60::1"]) expect(readGrant({ grants: root.path }, text)).toBeUndefined();
  });
});
