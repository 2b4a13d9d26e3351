/** The agent as a bench has it: a process of this build, with a run directory of its own. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const LIMIT_MS = 60_000;
const LOOK_MS = 10;

/** @returns when it is ready; disposing ends it */
export async function startResident(executable: string, runDirectory: string, args: readonly string[]): Promise<AsyncDisposable> {
  const child = Bun.spawn([executable, "--run-dir", runDirectory, "--health-port", "0", ...args], { stdout: "ignore", stderr: "ignore" });
  for (const end = performance.now() + LIMIT_MS; !isReady(runDirectory); await Bun.sleep(LOOK_MS)) {
    if (child.exitCode !== null || performance.now() > end) throw new Error(`the agent is not ready (exit status ${child.exitCode})`);
  }
  return {
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

function isReady(runDirectory: string): boolean {
  try {
    return readFileSync(join(runDirectory, "agent.json"), "utf8").includes('"ready"');
  } catch {
    return false;
  }
}
