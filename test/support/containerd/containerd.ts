/** Debian's containerd and runc on a pretend machine, with the plugins and the network configuration of a test. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Node, RunOptions, RunResult } from "../node.ts";
import { Cri } from "./cri.ts";

/** For `ctr run` and for CRI; its command is given by the test. */
export const IMAGE = "test.local/busybox:1";

const SCRIPTS = resolve("test/support/containerd");
const START_LIMIT_MS = 30_000;

export class Containerd implements AsyncDisposable {
  readonly cri: Cri;
  /** Socket paths are limited to 107 bytes and containerd's are long, so this is a short one. */
  readonly #directory: string;
  readonly #node: Node;
  readonly #process: ChildProcess;
  #pid = 0;

  private constructor(node: Node, directory: string, process: ChildProcess) {
    this.#node = node;
    this.#directory = directory;
    this.#process = process;
    this.cri = new Cri(join(directory, "sock"), IMAGE);
  }

  /**
   * @param pluginDirs folders whose files are the CNI plugins; the first one with a name wins
   * @param conflist content of the one network configuration
   */
  static async start(node: Node, pluginDirs: readonly string[], conflist: unknown): Promise<Containerd> {
    const directory = mkdtempSync("/run/ctd");
    const [plugins, networks, image] = ["bin", "net.d", "image"].map((name) => join(directory, name)) as [string, string, string];
    for (const folder of [plugins, networks, image]) mkdirSync(folder);
    for (const folder of pluginDirs) {
      for (const name of readdirSync(folder)) if (!existsSync(join(plugins, name))) symlinkSync(join(folder, name), join(plugins, name));
    }
    writeFileSync(join(networks, "10-test.conflist"), JSON.stringify(conflist));
    const made = await node.run([join(SCRIPTS, "busybox-image.sh"), image]);
    if (made.exit !== 0) throw new Error(`no image: ${made.stderr}`);

    const log = openSync(join(directory, "log"), "a");
    const argv = ["netns", "exec", node.name, join(SCRIPTS, "start.sh"), directory, plugins, networks];
    const containerd = new Containerd(node, directory, spawn("/usr/sbin/ip", argv, { stdio: ["ignore", log, log] }));
    try {
      await containerd.#ready();
      await containerd.ctr("images", "import", join(image, "image.tar"));
      await containerd.ctr("--namespace", "k8s.io", "images", "import", join(image, "image.tar"));
      return containerd;
    } catch (error) {
      await containerd[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Runs a command where containerd runs: on the node, and in containerd's mount and pid namespaces. */
  async run(argv: readonly string[], options: RunOptions = {}): Promise<RunResult> {
    return this.#node.run(["/usr/bin/nsenter", "--target", String(this.#pid), "--mount", "--pid", "--cgroup", ...argv], options);
  }

  /** `ctr`, which must succeed; `ctrRun` leaves that to the caller. */
  async ctr(...args: string[]): Promise<string> {
    const result = await this.ctrRun(...args);
    if (result.exit !== 0) throw new Error(`ctr ${args.join(" ")}: exit ${result.exit ?? result.signal}: ${result.stderr}\n${this.log()}`);
    return result.stdout;
  }

  async ctrRun(...args: string[]): Promise<RunResult> {
    return this.run(["ctr", "--address", join(this.#directory, "sock"), ...args]);
  }

  /** The end of containerd's log, with what plugins wrote on standard error. */
  log(): string {
    return readFileSync(join(this.#directory, "log"), "utf8").slice(-4000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((done) => this.#process.once("exit", done));
    if (this.#process.exitCode === null && this.#process.kill("SIGTERM")) await ended;
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #ready(): Promise<void> {
    const deadline = Date.now() + START_LIMIT_MS;
    for (;;) {
      this.#pid = pidOfContainerd(this.#process.pid ?? 0);
      if (this.#pid !== 0 && (await this.ctrRun("version")).exit === 0) return;
      if (this.#process.exitCode !== null || Date.now() > deadline) throw new Error(`containerd did not start:\n${this.log()}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

/** start.sh → unshare → containerd. 0 while it is not there yet. */
function pidOfContainerd(starter: number): number {
  const [unshare = 0] = childrenOf(starter).filter((pid) => commandOf(pid) === "unshare");
  return childrenOf(unshare).find((pid) => commandOf(pid) === "containerd") ?? 0;
}

function childrenOf(pid: number): number[] {
  return readOrEmpty(`/proc/${pid}/task/${pid}/children`).trim().split(" ").map(Number);
}

function commandOf(pid: number): string {
  return readOrEmpty(`/proc/${pid}/comm`).trim();
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
