/**
 * Sandboxes that only a process keeps, named by its process id, as some runtimes name them: /proc/PID/ns/net. The ids are those of a PID
 * namespace of their own, where the next one can be chosen without harm to anybody; its procfs lies below the node's directory.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Pod } from "../node.ts";

/** Smaller ids are left to the helpers of the namespace. */
const FIRST_ID = 1_000;
const STEP = 10;

/**
 * Process 1. It is told `PID program…`: which id comes next, and what puts that process into its network namespace; or `PID kill`. The id
 * is answered when it is done. The next id is one above ns_last_pid (proc_sys_kernel(5)): nobody else makes processes here.
 */
const INIT = `
mount -t proc proc "$1" && echo 1 || exit 1
while read -r pid enter; do
  if [ "$enter" = kill ]; then
    kill -9 "$pid"; wait "$pid" 2>/dev/null; echo "$pid"
  else
    echo "$((pid - 1))" >"$1/sys/kernel/ns_last_pid"
    $enter /bin/sh -c '/usr/sbin/ip link set lo up; echo $$; exec /bin/sleep infinity' &
  fi
done`;

export class ProcessIds implements AsyncDisposable {
  readonly #proc: string;
  readonly #init: ChildProcess;
  readonly #answers: AsyncIterator<string>;
  readonly #ids = new Map<Pod, number>();
  #last = FIRST_ID;

  private constructor(proc: string) {
    this.#proc = proc;
    const line = ["--pid", "--fork", "--kill-child", "/bin/bash", "-c", INIT, "init", proc];
    this.#init = spawn("/usr/bin/unshare", line, { stdio: ["pipe", "pipe", "inherit"] });
    const stdout = this.#init.stdout;
    if (stdout === null) throw new Error("process 1 has no output");
    this.#answers = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  /** @param directory where the procfs may be mounted */
  static async create(directory: string): Promise<ProcessIds> {
    const proc = join(directory, "proc");
    mkdirSync(proc);
    const ids = new ProcessIds(proc);
    await ids.#answered(1);
    return ids;
  }

  has(pod: Pod): boolean {
    return this.#ids.has(pod);
  }

  /**
   * A process in a network namespace of its own, or in that at `netnsPath`.
   *
   * @param former whose process has ended, and whose id comes again
   */
  async start(former?: Pod, netnsPath?: string): Promise<Pod> {
    const known = former === undefined ? undefined : this.#ids.get(former);
    if (known === undefined) this.#last += STEP;
    const id = known ?? this.#last;
    this.#tell(`${id} ${netnsPath === undefined ? "/usr/bin/unshare --net" : `/usr/bin/nsenter --net=${netnsPath}`}`);
    await this.#answered(id);
    const pod = { name: `process-${id}`, netnsPath: join(this.#proc, String(id), "ns", "net") };
    this.#ids.set(pod, id);
    return pod;
  }

  /** Kills the process that has the id of this sandbox; its namespace goes with it. */
  async end(pod: Pod): Promise<void> {
    const id = this.#ids.get(pod) ?? 0;
    this.#tell(`${id} kill`);
    await this.#answered(id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((done) => this.#init.once("close", done));
    this.#init.kill("SIGKILL");
    await ended;
    spawnSync("/usr/bin/umount", ["--lazy", this.#proc]);
  }

  #tell(line: string): void {
    this.#init.stdin?.write(`${line}\n`);
  }

  /** @throws Error when another process came, or process 1 has ended */
  async #answered(id: number): Promise<void> {
    const { value = "nothing" } = await this.#answers.next();
    if (value !== String(id)) throw new Error(`process ${id} of the namespace: process 1 says ${value}`);
  }
}
