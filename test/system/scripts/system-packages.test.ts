/** scripts/system-packages with a pretend apt and dpkg, on a /usr/sbin of its own: what it leaves on a developer's machine. */
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

let directory: string;
let runs: ChildProcess[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tortie-packages-"));
  for (const name of ["bin", "sbin"]) mkdirSync(join(directory, name));
  program("dpkg-query", `[ -e ${directory}/installed ] && echo installed`);
  // Says that it is at work, and installs when it may go on.
  program("apt-get", `echo "$$" >>${directory}/begun; while [ ! -e ${directory}/go ]; do sleep 0.02; done; touch ${directory}/installed`);
});
afterEach(() => {
  for (const run of runs) kill(run);
  runs = [];
  rmSync(directory, { recursive: true, force: true });
});

describe("L16: scripts/system-packages", () => {
  it("keeps services from starting while it installs, and only then", async () => {
    const run = start();
    await until(() => existsSync(join(directory, "begun")));
    expect(readFileSync(policy(), "utf8")).toMatch(/^#!\/bin\/sh\n.*\nexit 101\n$/);
    go();
    expect(await exitOf(run)).toBe(0);
    expect(existsSync(policy())).toBe(false);
  });

  it("removes what a killed run left, even with nothing to install, and keeps a policy of somebody else's", async () => {
    const killed = start();
    await until(() => existsSync(join(directory, "begun")));
    kill(killed);
    expect(await exitOf(killed)).toBeNull();
    expect(existsSync(policy())).toBe(true);
    writeFileSync(join(directory, "installed"), "");
    expect(await exitOf(start())).toBe(0);
    expect(existsSync(policy())).toBe(false);

    const foreign = "#!/bin/sh\nexit 101\n";
    writeFileSync(policy(), foreign);
    expect(await exitOf(start())).toBe(0);
    expect(readFileSync(policy(), "utf8")).toBe(foreign);
  });

  it("installs once when two runs begin together, and the second one does not disturb the first", async () => {
    const first = start();
    await until(() => existsSync(join(directory, "begun")));
    const second = start();
    // The second one has looked what is missing, and waits for the lock.
    await until(() => waitsForLock(second));
    expect(existsSync(policy())).toBe(true);
    go();
    expect(await Promise.all([exitOf(first), exitOf(second)])).toEqual([0, 0]);
    expect(readFileSync(join(directory, "begun"), "utf8").trim().split("\n")).toHaveLength(1);
  });
});

/** The machine's own /usr/sbin is out of sight; the lock, below /run, is that of the whole suite. */
const SCRIPT = `
mount --bind "$0/sbin" /usr/sbin
mkdir -p /run/lock
PATH=$0/bin:$PATH exec bash scripts/system-packages demo`;

function start(): ChildProcess {
  const run = spawn("unshare", ["--mount", "sh", "-ec", SCRIPT, directory], { detached: true, stdio: "ignore" });
  runs.push(run);
  return run;
}

const policy = () => join(directory, "sbin", "policy-rc.d");

const go = () => writeFileSync(join(directory, "go"), "");

function program(name: string, script: string): void {
  const path = join(directory, "bin", name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

function kill(run: ChildProcess): void {
  if (run.pid !== undefined && run.exitCode === null && run.signalCode === null) process.kill(-run.pid, "SIGKILL");
}

function exitOf(run: ChildProcess): Promise<number | null> {
  return run.exitCode !== null || run.signalCode !== null
    ? Promise.resolve(run.exitCode)
    : new Promise((resolve) => run.on("exit", (code) => resolve(code)));
}

/** flock is a child of the script, which /proc/locks names with "->" while it waits. */
function waitsForLock(run: ChildProcess): boolean {
  const children = Bun.spawnSync(["pgrep", "-g", String(run.pid), "-x", "flock"])
    .stdout.toString()
    .trim()
    .split("\n");
  const waiting = readFileSync("/proc/locks", "utf8")
    .split("\n")
    .filter((line) => line.includes("->"));
  return children.some((pid) => pid !== "" && waiting.some((line) => line.includes(` ${pid} `)));
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await Bun.sleep(10);
}
