/** What power a plugin keeps while it works, seen in /proc from outside. */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";
import { holdLock } from "../../support/lock-holder-process.ts";
import { type CniRun, Node } from "../../support/node.ts";

/** CAP_DAC_OVERRIDE, CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_SYS_ADMIN (capabilities(7)). */
const KEPT = (1n << 1n) | (1n << 12n) | (1n << 19n) | (1n << 21n);

/** Begun by the engine before the program: they free memory and compile, and make no system calls for it. */
const ENGINE_THREADS = ["JSCWarmUp", "mi-scavenger"];

const node = fresh(Node.create);

describe("Hardening: while it works, a plugin", () => {
  it.each(["tortie", "tortie-ipam"])(
    "%s has only the capabilities it needs, in each thread that runs the program, and no way to get more",
    async (plugin) => {
      await using waiting = await Waiting.start(node, { plugin });
      const threads = waiting.threads().filter(({ Name = "" }) => !ENGINE_THREADS.includes(Name));
      for (const status of threads) {
        expect(status).toMatchObject({ NoNewPrivs: "1", CapInh: "0000000000000000" });
        expect(BigInt(`0x${status.CapPrm}`)).toBe(KEPT);
        expect(BigInt(`0x${status.CapEff}`)).toBe(KEPT);
      }
      expect(threads.length).toBeGreaterThan(0);
      expect(await waiting.end()).toMatchObject({ exit: 0 });
    },
  );

  it("keeps what it has when drop_privileges is false", async () => {
    await using waiting = await Waiting.start(node, { conf: { drop_privileges: false } });
    const own = statusOf("/proc/self/status");
    for (const status of waiting.threads()) expect(status).toMatchObject({ NoNewPrivs: own.NoNewPrivs, CapEff: own.CapEff });
    expect(await waiting.end()).toMatchObject({ exit: 0 });
  });

  it("hands all it has to an IPAM plugin that is a program of its own", async () => {
    const seen = join(node.dir, "status");
    const plugin = join(node.dir, "foreign-ipam");
    writeFileSync(plugin, `#!/bin/sh\ncat /proc/self/status >${seen}\necho '{"code":100,"msg":"seen"}'\nexit 1\n`);
    chmodSync(plugin, 0o755);
    const conf = localConf(node, { ipam: { type: "foreign-ipam" } });
    await node.cni("ADD", { pod: await node.addPod(), conf, path: node.dir });
    const own = statusOf("/proc/self/status");
    expect(statusOf(seen)).toMatchObject({ NoNewPrivs: own.NoNewPrivs, CapEff: own.CapEff });
  });

  it("leaves no core file with its memory when it is aborted", async () => {
    const cores = join(node.dir, "cores");
    mkdirSync(cores);
    await using waiting = await Waiting.start(node, { cwd: cores });
    const other = Bun.spawnSync(["sh", "-c", "ulimit -c unlimited; kill -ABRT $$"], { cwd: join(cores) });
    expect(other.signalCode).toBe("SIGABRT");
    const others = readdirSync(cores);
    waiting.signal("SIGABRT");
    expect(await waiting.end()).toMatchObject({ stdout: "" });
    expect(readdirSync(cores)).toEqual(others);
  });
});

describe("Hardening: the log of an ADD warns of", () => {
  it.each<[string, Record<string, unknown>, number, string]>([
    ["a kubeconfig that everybody may read", { kubernetes: { kubeconfig: "FILE" } }, 0o644, "may be read by everybody"],
    ["a kubeconfig that others may write", { kubernetes: { kubeconfig: "FILE" } }, 0o620, "may be written by others than its owner"],
    ["a datastore that others may write", { datastore_path: "FILE" }, 0o666, "may be written by others than its owner"],
  ])("%s", async (_, change, mode, warning) => {
    const file = join(node.dir, "trusted");
    writeFileSync(file, "");
    chmodSync(file, mode);
    const conf = localConf(node, JSON.parse(JSON.stringify(change).replace("FILE", file)));
    const run = await node.cni("ADD", { pod: await node.addPod(), conf });
    expect(run.stderr).toContain(`warning: ${file} ${warning}`);
    chmodSync(file, 0o600);
    expect((await node.cni("ADD", { pod: await node.addPod(), conf })).stderr).not.toContain("warning:");
  });

  it("the directory of the plugins, when others may write there", async () => {
    const directory = join(node.dir, "bin");
    mkdirSync(directory);
    chmodSync(directory, 0o777);
    Bun.spawnSync(["cp", join(node.binDir, "tortie-main"), directory]);
    Bun.spawnSync(["ln", join(directory, "tortie-main"), join(directory, "tortie-ipam")]);
    const run = await node.cni("ADD", {
      plugin: join(directory, "tortie-main"),
      pod: await node.addPod(),
      conf: localConf(node),
      path: directory,
    });
    expect(run).toMatchObject({ exit: 0, stderr: expect.stringContaining(`warning: ${directory} may be written by others`) });
  });
});

/** An ADD that waits for the node's lock, which is held until `end`. */
class Waiting implements AsyncDisposable {
  readonly #lock: Disposable;
  readonly #pid: number;
  readonly #run: Promise<CniRun>;

  private constructor(lock: Disposable, pid: number, run: Promise<CniRun>) {
    this.#lock = lock;
    this.#pid = pid;
    this.#run = run;
  }

  static async start(node: Node, options: { plugin?: string; conf?: Record<string, unknown>; cwd?: string }): Promise<Waiting> {
    const path = `${node.dir}/ipam.lock`;
    const log = join(node.dir, "cni.log");
    const lock = await holdLock(path, 60);
    const conf = localConf(node, { log_file_path: log, ...options.conf });
    const { plugin = "tortie", cwd = node.dir } = options;
    const run = node.cni("ADD", { plugin, pod: await node.addPod(), conf, cwd });
    await until("the ADD waits", () => existsSync(log) && readFileSync(log, "utf8").includes(path));
    const pid = Number(/pid=(\d+)/.exec(readFileSync(log, "utf8"))?.[1]);
    return new Waiting(lock, pid, run);
  }

  threads(): Record<string, string>[] {
    return readdirSync(`/proc/${this.#pid}/task`).map((thread) => statusOf(`/proc/${this.#pid}/task/${thread}/status`));
  }

  signal(name: NodeJS.Signals): void {
    process.kill(this.#pid, name);
  }

  end(): Promise<CniRun> {
    this.#lock[Symbol.dispose]();
    return this.#run;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}

function statusOf(path: string): Record<string, string> {
  return Object.fromEntries(
    readFileSync(path, "utf8")
      .split("\n")
      .map((line) => line.split(":\t").map((part) => part.trim()) as [string, string]),
  );
}
