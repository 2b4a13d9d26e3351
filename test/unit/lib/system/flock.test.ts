import { existsSync, readFileSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import { lockFile, lockHolder, tryLockFile } from "../../../../lib/system/flock.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { holdLock } from "../../../support/lock-holder-process.ts";
import { umask } from "../../../support/umask.ts";

const dir = fresh(() => new TemporaryDirectory());
let path: string;
beforeEach(() => {
  path = join(dir.path, "lock");
});

describe("the lock of a file", () => {
  it("is created private, in a directory made for it, and stays empty and in place", () => {
    const deep = join(dir.path, "run", "calico", "ipam.lock");
    lockFile(deep)[Symbol.dispose]();
    expect(statSync(deep).mode & 0o777).toBe(0o600);
    expect(readFileSync(deep, "utf8")).toBe("");
  });

  it("L6: lies in directories that others cannot write, whatever the umask is", () => {
    using _ = umask(0);
    lockFile(join(dir.path, "run", "calico", "ipam.lock"))[Symbol.dispose]();
    for (const made of ["run", "run/calico"]) expect(statSync(join(dir.path, made)).mode & 0o777).toBe(0o755);
  });

  it("L6: is not looked for behind a symbolic link, which could make root create any file", () => {
    symlinkSync(join(dir.path, "elsewhere"), path);
    expect(() => tryLockFile(path)).toThrow(path);
    expect(() => lockFile(path)).toThrow(path);
    expect(existsSync(join(dir.path, "elsewhere"))).toBe(false);
  });

  it("does not wait for the writer of a FIFO that lies in its place", () => {
    expect(execaSync("mkfifo", [path]).exitCode).toBe(0);
    using lock = tryLockFile(path);
    expect(lock).toBeDefined();
  });

  it("excludes flock(1), which takes the same kind of lock as Calico's plugin", () => {
    const probe = () => execaSync("flock", ["--nonblock", path, "/bin/true"], { reject: false }).exitCode;
    {
      using lock = tryLockFile(path);
      expect(lock).toBeDefined();
      expect(probe()).toBe(1);
    }
    expect(probe()).toBe(0);
  });

  it("is not had, and not waited for, while another process or another call of this one has it", async () => {
    const holder = await holdLock(path, 60);
    expect(tryLockFile(path)).toBeUndefined();
    holder.kill("SIGKILL");
    {
      using _lock = lockFile(path);
      expect(tryLockFile(path)).toBeUndefined();
    }
    using free = tryLockFile(path);
    expect(free).toBeDefined();
  });

  it("leaves no descriptor open when it is not had", () => {
    using _lock = lockFile(path);
    const open = () => execaSync("ls", [`/proc/${process.pid}/fd`]).stdout.split("\n").length;
    const before = open();
    for (let tries = 0; tries < 100; tries++) tryLockFile(path);
    expect(open() - before).toBeLessThan(20);
  });

  it("is waited for until the holder lets go", async () => {
    await holdLock(path, 0.3);
    const before = performance.now();
    using _lock = lockFile(path);
    expect(performance.now() - before).toBeGreaterThan(150);
  });

  it("names the file that cannot be opened", () => {
    expect(() => lockFile(join("/proc", "nowhere", "lock"))).toThrow(/\/proc/);
    expect(() => tryLockFile(join("/proc", "nowhere", "lock"))).toThrow(/\/proc/);
  });
});

describe("the holder of a lock", () => {
  it("is named by its process, and by the program that it runs", async () => {
    const holder = await holdLock(path, 60);
    expect(lockHolder(path)).toBe(`pid ${holder.pid} (sleep)`);
    holder.kill("SIGKILL");
  });

  it("is not the one of another file, nor one that only waits", async () => {
    const other = await holdLock(join(dir.path, "other"), 60);
    const holder = await holdLock(path, 60);
    const waiting = Bun.spawn(["/usr/bin/flock", path, "/bin/true"]);
    const isWaiting = () => readFileSync("/proc/locks", "utf8").includes(` ${waiting.pid} `);
    while (!isWaiting()) await Bun.sleep(5);
    expect(lockHolder(path)).toBe(`pid ${holder.pid} (sleep)`);
    for (const one of [other, holder]) one.kill("SIGKILL");
    await waiting.exited;
  });

  it("is another process when nobody can be named", () => {
    expect(lockHolder(join(dir.path, "nothing"))).toBe("another process");
  });
});
