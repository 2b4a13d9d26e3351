import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeFileAtomically } from "../../../../lib/system/atomic-file.ts";

describe("writing a file that others read", () => {
  let dir = "";
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "tortie-atomic-"));
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  it("replaces the file with a new one, so that a reader that has the old one open keeps it whole", () => {
    const path = join(dir, "conflist");
    writeFileSync(path, "old");
    const before = statSync(path).ino;

    writeFileAtomically(path, "new", 0o600);

    expect(readFileSync(path, "utf8")).toBe("new");
    expect(statSync(path).ino).not.toBe(before);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(dir)).toEqual(["conflist"]);
  });

  it("leaves no temporary file behind when the target cannot be replaced", () => {
    const path = join(dir, "taken");
    writeFileAtomically(join(dir, "other"), "x");
    rmSync(path, { force: true });
    const inside = join(path, "file");
    expect(() => writeFileAtomically(inside, "x")).toThrow(/ENOENT/);
    expect(() => writeFileAtomically(dir, "x")).toThrow();
    expect(readdirSync(dir)).toEqual(["other"]);
  });
});
