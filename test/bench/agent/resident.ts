/** The agent as a bench has it: a process of this build, with a run directory of its own. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const LIMIT_MS = 60_000;
const LOOK_MS = 10;

export interface Resident extends AsyncDisposable {
  readonly pid: number;
  /** SIGKILL, and its end. */
  kill(): Promise<void>;
}

/** @returns when it is ready; disposing ends it */
export async function startResident(executable: string, runDirectory: string, args: readonly string[]): Promise<Resident> {
  const child = Bun.spawn([executable, "--run-dir", runDirectory, "--health-port", "0", ...args], { stdout: "ignore", stderr: "ignore" });
  for (const end = performance.now() + LIMIT_MS; !isReady(runDirectory, child.pid); await Bun.sleep(LOOK_MS)) {
    if (child.exitCode !== null || performance.now() > end) throw new Error(`the agent is not ready (exit status ${child.exitCode})`);
  }
  return {
    pid: child.pid,
    async kill() {
      child.kill("SIGKILL");
      await child.exited;
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

/** A file that an agent before it has left names another process. */
function isReady(runDirectory: string, wanted: number): boolean {
  try {
    const { phase, pid } = JSON.parse(readFileSync(join(runDirectory, "agent.json"), "utf8"));
    return phase === "ready" && pid === wanted;
  } catch {
    return false;
  }
}
