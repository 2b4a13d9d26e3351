import { chmodSync, copyFileSync, linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findPlugin } from "../../../../lib/cni/delegate.ts";
import { isRunningExecutable } from "../../../../lib/cni/plugin-file.ts";

let base: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "tortie-find-"));
  for (const directory of ["one", "two"]) mkdirSync(join(base, directory));
});
afterEach(() => rmSync(base, { recursive: true }));

const file = (name: string, mode = 0o755) => {
  writeFileSync(join(base, name), "#!/bin/sh\n");
  chmodSync(join(base, name), mode);
};
const path = () => `${base}/one:${base}/two`;

describe("findPlugin", () => {
  it("takes the first directory of CNI_PATH that has the file", () => {
    file("one/ipam");
    file("two/ipam");
    expect(findPlugin("ipam", path())).toBe(`${base}/one/ipam`);
  });

  it("follows symbolic links, and passes over directories, dead links and files that may not be executed", () => {
    mkdirSync(join(base, "one/ipam"));
    symlinkSync("/nowhere", join(base, "one/dead"));
    file("two/real");
    symlinkSync("real", join(base, "two/ipam"));
    symlinkSync("real", join(base, "two/dead"));
    file("one/real", 0o644);
    expect(findPlugin("ipam", path())).toBe(`${base}/two/ipam`);
    expect(findPlugin("dead", path())).toBe(`${base}/two/dead`);
    expect(findPlugin("real", path())).toBe(`${base}/two/real`);
  });

  it.each([
    ["", "/opt", "no plugin name provided"],
    ["./ipam", "/opt", "invalid plugin name: ./ipam"],
    ["/bin/sh", "/opt", "invalid plugin name: /bin/sh"],
    ["ipam", "", 'no paths provided to look for plugin "ipam"'],
    ["ipam", ":", 'no paths provided to look for plugin "ipam"'],
    ["absent-ipam", "/opt/a:/opt/b", 'failed to find plugin "absent-ipam" in path [/opt/a /opt/b]'],
  ])("refuses the name %j in the path %j (recordings no-ipam, ipam-path, ipam-unknown)", (name, cniPath, message) => {
    expect(() => findPlugin(name, cniPath)).toThrow(expect.objectContaining({ word: "delegate-not-found", code: 999, message }));
  });

  it("says when a file was there but may not be executed", () => {
    file("one/ipam", 0o644);
    expect(() => findPlugin("ipam", path())).toThrow(`${base}/one/ipam may not be executed`);
  });
});

describe("isRunningExecutable", () => {
  it("knows this process's own file, through links of both kinds, and no copy of it", () => {
    const self = process.execPath;
    expect(isRunningExecutable(self)).toBe(true);
    symlinkSync(self, join(base, "symbolic"));
    expect(isRunningExecutable(join(base, "symbolic"))).toBe(true);
    expect(isRunningExecutable("/bin/sh")).toBe(false);
    expect(isRunningExecutable(join(base, "missing"))).toBe(false);
    copyFileSync("/bin/true", join(base, "copy"));
    linkSync(join(base, "copy"), join(base, "hard"));
    expect(isRunningExecutable(join(base, "hard"))).toBe(false);
  });
});
