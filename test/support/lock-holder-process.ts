/** Another process that holds a lock with util-linux's flock(1), which takes the same kind of lock as Calico's plugin. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";

/** Comes back when the lock is held. It is let go after `seconds`, or when the process is killed or disposed of. */
export async function holdLock(path: string, seconds: number): Promise<ChildProcess & Disposable & { readonly pid: number }> {
  const child = spawn("/usr/bin/flock", ["--no-fork", path, "/bin/sh", "-c", `echo held; exec /bin/sleep ${seconds}`], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  const { pid } = child;
  if (pid === undefined) throw new Error(`no process holds ${path}`);
  // It has said that it holds the lock before it becomes the program that it is named by.
  while (child.exitCode === null && readFileSync(`/proc/${pid}/comm`, "utf8").trim() !== "sleep") await Bun.sleep(1);
  return Object.assign(child, { pid, [Symbol.dispose]: () => void child.kill("SIGKILL") });
}
