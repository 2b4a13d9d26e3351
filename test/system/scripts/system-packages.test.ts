/** scripts/system-packages with a pretend apt, commands and a /usr/sbin of its own: what it leaves on a developer's machine. */
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";

/** What the script itself runs, the machine's own. */
const TOOLS = ["id", "flock", "grep", "rm", "sed", "tr", "chmod", "sleep", "touch", "cat"];
/** Commands that the demo and the suites need; `arping` is the one that is missing. */
const PRESENT = [...readFileSync("scripts/system-packages", "utf8").matchAll(/^ +"\S+ ([^"]+)"$/gm)]
  .flatMap(([, needs = ""]) => needs.split(" "))
  .filter((need) => !need.startsWith("/") && need !== "arping" && !TOOLS.includes(need));

const directory = fresh(() => new TemporaryDirectory());
const runs = fresh(() => new DisposableStack());
beforeEach(() => {
  for (const name of ["bin", "sbin"]) mkdirSync(join(directory.path, name));
  for (const tool of TOOLS) symlinkSync(Bun.which(tool) ?? "", join(directory.path, "bin", tool));
  for (const name of PRESENT) program(name, "exit 1");
  // No package of Debian is installed: what is there came in another way.
  program("dpkg-query", "exit 1");
  plan("Inst iputils-arping (3:20221126-1)", "Inst libcap2 (1:2.66-4)", "Conf iputils-arping (3:20221126-1)");
  // Answers a simulation; else says that it is at work, and installs when it may go on.
  program(
    "apt-get",
    `case "$*" in *--simulate*) exec cat ${directory.path}/plan ;; esac
echo "$*" >>${directory.path}/begun
while [ ! -e ${directory.path}/go ]; do sleep 0.02; done
printf '#!/bin/sh\\n' >${directory.path}/bin/arping && chmod +x ${directory.path}/bin/arping`,
  );
});

describe("L16: scripts/system-packages", () => {
  it("keeps services from starting while it installs, and only then", async () => {
    const run = start();
    await installing();
    expect(readFileSync(policy(), "utf8")).toMatch(/^#!\/bin\/sh\n.*\nexit 101\n$/);
    go();
    expect(await exitOf(run)).toBe(0);
    expect(existsSync(policy())).toBe(false);
  });

  it("removes what a killed run left, even with nothing to install, and keeps a policy of somebody else's", async () => {
    const killed = start();
    await installing();
    kill(killed);
    expect(await exitOf(killed)).toBeNull();
    expect(existsSync(policy())).toBe(true);
    program("arping", "exit 1");
    expect(await exitOf(start())).toBe(0);
    expect(existsSync(policy())).toBe(false);

    const foreign = "#!/bin/sh\nexit 101\n";
    writeFileSync(policy(), foreign);
    expect(await exitOf(start())).toBe(0);
    expect(readFileSync(policy(), "utf8")).toBe(foreign);
  });

  it("installs once when two runs begin together, and the second one does not disturb the first", async () => {
    const first = start();
    await installing();
    const second = start();
    // The second one has looked what is missing, and waits for the lock.
    await until("the lock is waited for", () => waitsForLock(second));
    expect(existsSync(policy())).toBe(true);
    go();
    expect(await Promise.all([exitOf(first), exitOf(second)])).toEqual([0, 0]);
    expect(readFileSync(join(directory.path, "begun"), "utf8").trim().split("\n")).toHaveLength(1);
  });
});

describe("W1: scripts/system-packages", () => {
  it("installs nothing where the commands are there, whichever package they came in", async () => {
    program("arping", "exit 1");
    expect(await exitOf(start("all"))).toBe(0);
    expect(existsSync(join(directory.path, "begun"))).toBe(false);
  });

  it("installs nothing, and says why, where apt would remove a package for it", async () => {
    plan("Remv docker-ce [5:27.3.1-1]", "Remv containerd.io [1.7.22-1] [docker-ce]", "Inst containerd (1.6.20)");
    rmSync(join(directory.path, "bin", "ctr"));
    const run = start("all");
    expect(await exitOf(run)).toBe(1);
    expect(said()).toContain("not found: arping ctr\n");
    expect(said()).toContain("apt would remove these packages for them, so nothing was installed: docker-ce containerd.io");
    expect(existsSync(join(directory.path, "begun"))).toBe(false);
    expect(existsSync(policy())).toBe(false);
  });

  it("says every package that it installs, and forbids apt to remove any", async () => {
    const run = start();
    await installing();
    go();
    expect(await exitOf(run)).toBe(0);
    expect(said()).toBe("not found: arping\ninstalling Debian packages: iputils-arping libcap2 \n");
    expect(readFileSync(join(directory.path, "begun"), "utf8")).toMatch(/ install .*--no-remove iputils-arping\n$/);
  });

  it("fails where a command is missing after all", async () => {
    rmSync(join(directory.path, "bin", "nft"));
    go();
    const run = start();
    expect(await exitOf(run)).toBe(1);
    expect(said()).toMatch(/still not found: nft\n$/);
  });
});

/** The machine's own /usr/sbin is out of sight; the lock, below /run, is that of the whole suite. */
const SCRIPT = `
mount --bind "$0/sbin" /usr/sbin
mkdir -p /run/lock
PATH=$0/bin exec /bin/bash scripts/system-packages $1 2>$0/said`;

function start(packages: "demo" | "all" = "demo"): ChildProcess {
  const mode = packages === "demo" ? ["demo"] : [];
  const run = spawn("unshare", ["--mount", "sh", "-ec", SCRIPT, directory.path, ...mode], { detached: true, stdio: "ignore" });
  return runs.adopt(run, kill);
}

const policy = () => join(directory.path, "sbin", "policy-rc.d");

const said = () => readFileSync(join(directory.path, "said"), "utf8");

/** What apt says that it would do. */
const plan = (...lines: readonly string[]) => writeFileSync(join(directory.path, "plan"), `${lines.join("\n")}\n`);

const installing = () => until("apt is at work", () => existsSync(join(directory.path, "begun")));

const go = () => writeFileSync(join(directory.path, "go"), "");

function program(name: string, script: string): void {
  const path = join(directory.path, "bin", name);
  // A link leads to the machine's own program, which must not be written to.
  rmSync(path, { force: true });
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
