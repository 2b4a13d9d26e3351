/** Programs under strace, which notes their system calls or does something to them (strace(1), --inject). */
import { type ChildProcess, spawn } from "node:child_process";

/** @param fault what becomes of these calls: "signal=SIGKILL:when=7" */
export function injected(calls: string, fault: string): readonly string[] {
  return ["-f", "-o", "/dev/null", "-e", `trace=${calls}`, "-e", `inject=${calls}:${fault}`];
}

/** @returns what stands before a program that meets the fault */
export function injecting(calls: string, fault: string): readonly string[] {
  return ["/usr/bin/strace", "-qq", ...injected(calls, fault)];
}

/** Follows a process that runs; comes back when it is attached. */
export async function follow(pid: number, options: readonly string[]): Promise<ChildProcess> {
  const strace = spawn("/usr/bin/strace", [...options, "-p", String(pid)], { stdio: ["ignore", "ignore", "pipe"] });
  await new Promise<void>((attached, failed) => {
    let said = "";
    strace.stderr.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes(" attached")) attached();
    });
    strace.once("close", (exit) => failed(new Error(`strace ended (${exit}): ${said}`)));
  });
  return strace;
}
