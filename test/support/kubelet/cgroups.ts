/**
 * Control groups for one kubelet: the sandbox has a /sys of its own without them. They are the machine's all the same, so that everything
 * of the run lies below one group, which goes with it.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";

const MOUNT_POINT = "/sys/fs/cgroup";

export class Cgroups implements AsyncDisposable {
  /** As kubelet names it, from the root of each hierarchy. */
  readonly root = `/tortie-kubelet-${process.pid}`;
  readonly #hierarchies: readonly string[];

  private constructor(hierarchies: readonly string[]) {
    this.#hierarchies = hierarchies;
    for (const hierarchy of hierarchies) mkdirSync(join(hierarchy, this.root), { recursive: true });
  }

  /** Mounts what the kernel has, version 1 or 2, as the machine has it (cgroups(7), /proc/self/cgroup). */
  static mount(): Cgroups {
    if (readdirSync(MOUNT_POINT).length > 0) throw new Error(`${MOUNT_POINT} is not empty: this is no sandbox`);
    const named = readFileSync("/proc/self/cgroup", "utf8").trimEnd().split("\n");
    const controllers = named.map((line) => line.split(":")[1] ?? "").filter((names) => names !== "");
    if (controllers.length === 0) {
      mount("cgroup2", "none", MOUNT_POINT);
      return new Cgroups([MOUNT_POINT]);
    }
    mount("tmpfs", "tmpfs", MOUNT_POINT);
    const hierarchies = controllers.map((names) => {
      const directory = join(MOUNT_POINT, names.replace(/^name=/, ""));
      mkdirSync(directory);
      mount("cgroup", "cgroup", directory, "-o", names.startsWith("name=") ? `none,${names}` : names);
      return directory;
    });
    return new Cgroups(hierarchies);
  }

  /** Kills what is in them, and leaves them as they were in the beginning. */
  async empty(): Promise<void> {
    for (const hierarchy of this.#hierarchies) {
      await removeGroup(join(hierarchy, this.root));
      mkdirSync(join(hierarchy, this.root));
    }
  }

  /** The processes in them are gone, or are killed here. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const hierarchy of this.#hierarchies) await removeGroup(join(hierarchy, this.root));
    execFileSync("umount", ["--recursive", MOUNT_POINT]);
  }
}

function mount(type: string, source: string, target: string, ...options: string[]): void {
  execFileSync("mount", ["-t", type, ...options, source, target]);
}

/** A group goes when nothing is in it; the kernel needs a moment for that after a kill. */
async function removeGroup(path: string): Promise<void> {
  if (!existsSync(path)) return;
  for (const entry of readdirSync(path, { withFileTypes: true })) if (entry.isDirectory()) await removeGroup(join(path, entry.name));
  for (let tries = 0; ; tries++) {
    for (const pid of readFileSync(join(path, "cgroup.procs"), "utf8").split("\n").filter(Boolean)) kill(Number(pid));
    try {
      rmdirSync(path);
      return;
    } catch (error) {
      if (tries === 200) throw error;
      await Bun.sleep(25);
    }
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It was gone first.
  }
}
