import { chmodSync, copyFileSync, linkSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findPlugin } from "../../../../lib/cni/delegate.ts";
import { isRunningExecutable } from "../../../../lib/cni/plugin-file.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const base = fresh(() => new TemporaryDirectory());
beforeEach(() => {
  for (const directory of ["one", "two"]) mkdirSync(join(base.path, directory));
});

const file = (name: string, mode = 0o755) => {
  writeFileSync(join(base.path, name), "#!/bin/sh\n");
  chmodSync(join(base.path, name), mode);
};
const path = () => `${base.path}/one:${base.path}/two`;

describe("findPlugin", () => {
  it("takes the first directory of CNI_PATH that has the file", () => {
    file("one/ipam");
    file("two/ipam");
    expect(findPlugin("ipam", path())).toBe(`${base.path}/one/ipam`);
  });

  it("follows symbolic links, and passes over directories, dead links and files that may not be executed", () => {
    mkdirSync(join(base.path, "one/ipam"));
    symlinkSync("/nowhere", join(base.path, "one/dead"));
    file("two/real");
    symlinkSync("real", join(base.path, "two/ipam"));
    symlinkSync("real", join(base.path, "two/dead"));
    file("one/real", 0o644);
    expect(findPlugin("ipam", path())).toBe(`${base.path}/two/ipam`);
    expect(findPlugin("dead", path())).toBe(`${base.path}/two/dead`);
    expect(findPlugin("real", path())).toBe(`${base.path}/two/real`);
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
    expect(() => findPlugin("ipam", path())).toThrow(`${base.path}/one/ipam may not be executed`);
  });
});

describe("isRunningExecutable", () => {
  it("knows this process's own file, through links of both kinds, and no copy of it", () => {
    const self = process.execPath;
    expect(isRunningExecutable(self)).toBe(true);
    symlinkSync(self, join(base.path, "symbolic"));
    expect(isRunningExecutable(join(base.path, "symbolic"))).toBe(true);
    expect(isRunningExecutable("/bin/sh")).toBe(false);
    expect(isRunningExecutable(join(base.path, "missing"))).toBe(false);
    copyFileSync("/bin/true", join(base.path, "copy"));
    linkSync(join(base.path, "copy"), join(base.path, "hard"));
    expect(isRunningExecutable(join(base.path, "hard"))).toBe(false);
  });
});
