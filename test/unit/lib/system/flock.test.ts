import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lockFile } from "../../../../lib/system/flock.ts";

/** Holds the lock with util-linux's flock(1), says so, and lets go after `seconds` or when killed. */
async function holder(path: string, seconds: number): Promise<ReturnType<typeof spawn>> {
  const child = spawn("/usr/bin/flock", ["--no-fork", path, "/bin/sh", "-c", `echo held; exec /bin/sleep ${seconds}`], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  return child;
}

describe("the lock of a file", () => {
  let dir = "";
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "tortie-flock-"));
  });
  afterEach(() => rmSync(dir, { recursive: true }));

  it("is created private, in a directory made for it, and stays empty and in place", () => {
    const path = join(dir, "run", "calico", "ipam.lock");
    lockFile(path)[Symbol.dispose]();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).toBe("");
  });

  it("excludes flock(1), which takes the same kind of lock as Calico's plugin", () => {
    const path = join(dir, "lock");
    const probe = () => Bun.spawnSync(["/usr/bin/flock", "--nonblock", path, "/bin/true"]).exitCode;
    {
      using lock = lockFile(path);
      expect(lock.hadToWait).toBe(false);
      expect(probe()).toBe(1);
    }
    expect(probe()).toBe(0);
  });

  it("waits until the holder lets go", async () => {
    const path = join(dir, "lock");
    await holder(path, 0.3);
    const before = performance.now();
    using lock = lockFile(path);
    expect(lock.hadToWait).toBe(true);
    expect(performance.now() - before).toBeGreaterThan(150);
  });

  it("is free as soon as a killed holder is gone", async () => {
    const path = join(dir, "lock");
    const child = await holder(path, 60);
    child.kill("SIGKILL");
    const before = performance.now();
    using _lock = lockFile(path);
    expect(performance.now() - before).toBeLessThan(5000);
  });

  it("names the file that cannot be opened", () => {
    expect(() => lockFile(join("/proc", "nowhere", "lock"))).toThrow(/\/proc/);
  });
});
