/** Which executables go into which directory of the host, and what is refused. */
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { copyExecutables, planExecutables } from "../../../installer/install.ts";
import { fresh } from "../../support/fixtures.ts";
import { InstallDirectories } from "../../support/install-directories.ts";

const host = fresh(() => new InstallDirectories());

const copied = (settings: ReturnType<InstallDirectories["settings"]>) => copyExecutables(planExecutables(settings, host.log), host.log);

describe("The executables of a host", () => {
  it("are our own and the staged plugins, but for scripts of installers, our own names, folders and what is to be skipped", () => {
    mkdirSync(join(host.pluginSource, "folder"), { recursive: true });
    for (const name of ["portmap", "bandwidth", "install", "install.sh", "tortie-ipam"]) {
      writeFileSync(join(host.pluginSource, name), `staged ${name}`, { mode: 0o755 });
    }

    copied(host.settings({ SKIP_CNI_BINARIES: " bandwidth ," }));

    expect(host.visible(host.binDir)).toEqual(["portmap", "tortie", "tortie-ipam", "tortiectl"]);
    const text = (name: string) => readFileSync(join(host.binDir, name), "utf8");
    expect([text("portmap"), text("tortie-ipam"), text("tortie")]).toEqual(["staged portmap", "ours", "ours"]);
  });

  it("are one file with several names in each directory", () => {
    const second = join(host.root, "second");
    mkdirSync(second);
    copied(host.settings({}, { binDirs: [host.binDir, second] }));
    const inodes = (directory: string) =>
      new Set(["tortie", "tortie-ipam", "tortiectl"].map((name) => statSync(join(directory, name)).ino));
    expect([inodes(host.binDir).size, inodes(second).size]).toEqual([1, 1]);
    expect(inodes(host.binDir)).not.toEqual(inodes(second));
  });

  it("stay as they are where they are not to be updated, and those that are missing come", () => {
    writeFileSync(join(host.binDir, "tortie"), "older");
    copied(host.settings({ UPDATE_CNI_BINARIES: "false" }));
    expect(readFileSync(join(host.binDir, "tortie"), "utf8")).toBe("older");
    expect(readFileSync(join(host.binDir, "tortie-ipam"), "utf8")).toBe("ours");
    expect(host.said).toContain(`${join(host.binDir, "tortie")} is there and stays (UPDATE_CNI_BINARIES=false)`);
  });

  it("go where they can be written, and a directory that is missing is named", () => {
    const missing = join(host.root, "missing");
    copied(host.settings({}, { binDirs: [missing, host.binDir] }));
    expect(host.visible(host.binDir)).toContain("tortie");
    expect(host.said).toContain(`${missing} cannot be written (ENOENT): left out`);
  });

  it.each(["true", "false"])("are refused where no directory can be written and none has them (updates: %s)", (updates) => {
    const missing = join(host.root, "missing");
    const settings = host.settings({ UPDATE_CNI_BINARIES: updates }, { binDirs: [missing] });
    expect(() => planExecutables(settings, host.log)).toThrow(
      expect.objectContaining({ word: "install-failed", message: expect.stringContaining(`${missing}: ENOENT`) }),
    );
  });

  it("are refused, by the name of the one, where the source is gone", () => {
    const settings = host.settings();
    const plan = planExecutables(settings, host.log);
    rmSync(settings.source);
    expect(() => copyExecutables(plan, host.log)).toThrow(
      expect.objectContaining({ word: "install-failed", message: expect.stringContaining(`${join(host.binDir, "tortie")}`) }),
    );
  });
});
