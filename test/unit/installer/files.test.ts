/** Comparison and replacement of files by the installer (C§11.4, I15 to I22). */
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { areEqual, copyWhole, removeWhole, writeWhole } from "../../../installer/files.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());
const at = (name: string) => join(directory.path, name);

describe("areEqual", () => {
  const big = "x".repeat(200_000);
  it.each([
    ["I15: equal files", "content", "content", true],
    ["I16: different files", "content", "other text", false],
    ["I17: files of one size with different content", "content", "CONTENT", false],
    ["I19: a big and a small file", big, "x", false],
    ["I20: a small and a big file", "x", big, false],
    ["I21: files beyond one buffer that differ in one byte", big, `${big.slice(0, -1)}y`, false],
    ["I22: equal files beyond one buffer", big, big, true],
  ])("%s", (_, one, other, equal) => {
    writeFileSync(at("one"), one);
    writeFileSync(at("other"), other);

    expect(areEqual(at("one"), at("other"))).toBe(equal);
  });

  it("I18: files whose permissions differ", () => {
    writeFileSync(at("one"), "content", { mode: 0o600 });
    writeFileSync(at("other"), "content", { mode: 0o600 });
    chmodSync(at("other"), 0o755);

    expect(areEqual(at("one"), at("other"))).toBe(false);
  });

  it("is false where one of them is missing", () => {
    writeFileSync(at("one"), "content");

    expect([areEqual(at("one"), at("none")), areEqual(at("none"), at("one"))]).toEqual([false, false]);
  });
});

describe("writeWhole", () => {
  it("gives the file its content and its mode, whatever stood there and whatever the umask is", () => {
    writeFileSync(at("file"), "before", { mode: 0o666 });

    expect(writeWhole(at("file"), "after", 0o640)).toBe(true);

    expect(readFileSync(at("file"), "utf8")).toBe("after");
    expect(statSync(at("file")).mode & 0o777).toBe(0o640);
    expect(readdirSync(directory.path)).toEqual(["file"]);
  });

  it("does not touch a file that has it all already", () => {
    writeWhole(at("file"), "text", 0o600);
    const before = statSync(at("file"));

    expect(writeWhole(at("file"), "text", 0o600)).toBe(false);

    expect(statSync(at("file")).ino).toBe(before.ino);
  });

  it("is not stopped by what an installer that died has left", () => {
    writeFileSync(at("file.tmp"), "half");

    writeWhole(at("file"), "whole", 0o600);

    expect(readFileSync(at("file"), "utf8")).toBe("whole");
  });
});

describe("copyWhole", () => {
  it("copies, and gives a further name to what was installed already", () => {
    writeFileSync(at("source"), "program", { mode: 0o755 });

    expect(copyWhole(at("source"), at("target"))).toBe(true);
    expect(copyWhole(at("source"), at("other"), { twin: at("target") })).toBe(true);

    expect(statSync(at("target")).ino).not.toBe(statSync(at("source")).ino);
    expect(statSync(at("other")).ino).toBe(statSync(at("target")).ino);
    expect(statSync(at("target")).mode & 0o777).toBe(0o755);
    expect(copyWhole(at("source"), at("target"))).toBe(false);
  });

  it("leaves whoever has the former file open with what it opened", () => {
    writeFileSync(at("source"), "new", { mode: 0o755 });
    writeFileSync(at("target"), "old", { mode: 0o755 });
    const before = statSync(at("target")).ino;

    copyWhole(at("source"), at("target"));

    expect(statSync(at("target")).ino).not.toBe(before);
    expect(readFileSync(at("target"), "utf8")).toBe("new");
  });
});

describe("A file that is compared, copied, written or removed", () => {
  it("is not left open, whether it changes or not", () => {
    const opened = () => readdirSync("/proc/self/fd").length;
    writeFileSync(at("source"), "content", { mode: 0o755 });
    const before = opened();
    for (const text of ["one", "one", "two"]) {
      writeWhole(at("file"), text, 0o600);
      copyWhole(at("file"), at("copy"));
      areEqual(at("file"), at("source"));
      areEqual(at("file"), at("copy"));
    }
    removeWhole(at("copy"));
    expect(opened()).toBe(before);
  });
});

describe("removeWhole", () => {
  it("says whether there was anything", () => {
    writeFileSync(at("file"), "");

    expect([removeWhole(at("file")), removeWhole(at("file"))]).toEqual([true, false]);
  });
});
