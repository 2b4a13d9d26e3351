/** One file, several names: which role an executable plays, and what a person sees who runs it by hand (C§0.1, I§1.1). */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fresh } from "../../support/fixtures.ts";
import { BIN_DIR, Node } from "../../support/node.ts";

/** Nothing here takes so long; this only ends what waits for standard input. */
const LONG_MS = 10_000;
const VERSION_LINE = /^\d+\.\d+\.\d+\n$/;

const node = fresh(Node.create);

describe("The executables", () => {
  it("are hard links to one file, and the main plugin to another before it", () => {
    const inodes = ["tortie-main", "tortie-ipam", "tortie-node", "tortiectl", "calico-main", "calico-ipam"].map(
      (name) => statSync(join(BIN_DIR, name)).ino,
    );
    expect(new Set(inodes).size).toBe(1);
    expect(statSync(join(BIN_DIR, "calico")).ino).toBe(statSync(join(BIN_DIR, "tortie")).ino);
  });

  it.each(["tortie", "tortie-ipam", "calico", "calico-ipam"])(
    "called %s print their version with -v, even with CNI_COMMAND set",
    async (name) => {
      const run = await node.run([join(BIN_DIR, name), "-v"], { env: { CNI_COMMAND: "ADD" } });
      expect(run).toMatchObject({ exit: 0, stdout: expect.stringMatching(VERSION_LINE) });
    },
  );

  it.each([
    ["calico", "tortie"],
    ["calico-ipam", "tortie-ipam"],
  ])("take the role from the name of a symlink: %s", async (link, program) => {
    symlinkSync(join(BIN_DIR, "tortiectl"), join(node.dir, link));
    const run = await node.run([join(node.dir, link)], { env: {} });
    expect(run).toMatchObject({ exit: 0, stdout: "", stderr: expect.stringContaining(`${program} `) });
    expect(run.stderr).toContain("CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0");
  });

  it("refuse a name that is no role, naming those that are", async () => {
    symlinkSync(join(BIN_DIR, "tortie"), join(node.dir, "flannel"));
    const run = await node.run([join(node.dir, "flannel")], { env: {} });
    expect(run).toMatchObject({ exit: 2, stdout: "", stderr: expect.stringContaining("tortie-ipam") });
  });

  it("refuse an unknown flag with status 2 and the usage on stderr", async () => {
    const run = await node.run([join(BIN_DIR, "tortie"), "-x"], { env: { CNI_COMMAND: "ADD" } });
    expect(run).toMatchObject({
      exit: 2,
      stdout: "",
      stderr: expect.stringMatching(/flag provided but not defined: -x\nUsage of tortie:/),
    });
  });

  it.each(["tortie", "tortie-ipam"])("%s says its version for --version as for -v", async (name) => {
    const [short, long] = [await node.run([join(BIN_DIR, name), "-v"]), await node.run([join(BIN_DIR, name), "--version"])];
    expect(short).toMatchObject({ exit: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    expect(long).toEqual(short);
  });

  it("ignore positional arguments, which some callers pass", async () => {
    const run = await node.run([join(BIN_DIR, "tortie"), '{"name":"net1"}'], { env: { CNI_COMMAND: "VERSION" } });
    expect(run.exit).toBe(0);
    expect(JSON.parse(run.stdout)).toMatchObject({ supportedVersions: ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] });
  });

  it.each(["tortie", "tortie-ipam"])("called %s answer VERSION, and a person, while standard input stays open", async (name) => {
    for (const env of [{ CNI_COMMAND: "VERSION" }, {}]) {
      const child = spawn(join(BIN_DIR, name), { env, stdio: ["pipe", "ignore", "ignore"] });
      try {
        expect(await once(child, "exit", { signal: AbortSignal.timeout(LONG_MS) })).toEqual([0, null]);
      } finally {
        child.kill("SIGKILL");
      }
    }
  });

  it("test the datastore with -t: silent when it answers, code 100 with the reason when it does not", async () => {
    const probe = (path: string) =>
      node.run([join(BIN_DIR, "tortie"), "-t"], {
        env: { CNI_COMMAND: "VERSION" },
        stdin: JSON.stringify({ name: "net1", type: "tortie", datastore_type: "local", datastore_path: path }),
      });
    expect(await probe(node.datastorePath)).toMatchObject({ exit: 0, stdout: "" });
    const failed = await probe("/proc/absent.db");
    expect(failed.exit).toBe(1);
    expect(JSON.parse(failed.stdout)).toMatchObject({
      code: 100,
      msg: "data store connection failed",
      details: expect.stringMatching(/\/proc\/absent\.db.*datastore-probe-failed/s),
    });
  });

  it("are not changed by stray files of the working directory", async () => {
    writeFileSync(join(node.dir, ".env"), "CNI_COMMAND=BOGUS\n");
    writeFileSync(join(node.dir, "bunfig.toml"), 'preload = ["./absent.ts"]\n');
    const run = await node.run([join(BIN_DIR, "tortie")], { env: {}, cwd: node.dir });
    expect(run).toMatchObject({ exit: 0, stdout: "" });
  });
});
