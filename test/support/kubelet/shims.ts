/** containerd's shims: one a sandbox, parent of its processes. They outlive containerd, which is their purpose, and would outlive the sandbox. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { endProcess } from "../kubernetes/process.ts";

/** Kills the shims of this sandbox, and no other's. */
export async function endShims(): Promise<void> {
  const own = readlinkSync("/proc/self/ns/mnt");
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  await Promise.all(pids.filter((pid) => isShim(pid, own)).map((pid) => endProcess(Number(pid))));
}

function isShim(pid: string, mountNamespace: string): boolean {
  try {
    const [program = ""] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return program.endsWith("/containerd-shim-runc-v2") && readlinkSync(`/proc/${pid}/ns/mnt`) === mountNamespace;
  } catch {
    // It has ended meanwhile.
    return false;
  }
}
