/** The agent as a bench has it: a process of this build, with a run directory of its own. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BIN_DIR } from "../support/node.ts";

const LIMIT_MS = 60_000;
const LOOK_MS = 10;
/** Of /proc/<pid>/stat (proc(5)): USER_HZ is 100 on all that Linux runs on here. */
const TICKS_PER_SECOND = 100;

/**
 * Where a forwarder looks that reads no configuration. The sandbox of the bench has a /run of its own; as on a machine it is a tmpfs: on
 * ext4 an ADD took 2 to 12 ms more.
 */
export const RUN_DIRECTORY = "/run/tortie";

export interface Resident extends AsyncDisposable {
  readonly pid: number;
  /** Milliseconds of processor since its start, the user's and the kernel's. */
  processorMs(): number;
  /** The longest standstill of its event loop since its start, milliseconds. */
  longestStandstillMs(): Promise<number>;
  /** SIGKILL, and its end. */
  kill(): Promise<void>;
}

/** @returns when it is ready; disposing ends it */
export async function startResident(runDirectory: string, args: readonly string[]): Promise<Resident> {
  const command = [join(BIN_DIR, "tortie-node"), "--run-dir", runDirectory, "--health-port", "0", ...args];
  const child = Bun.spawn(command, { stdout: "ignore", stderr: "ignore" });
  for (const end = performance.now() + LIMIT_MS; !isReady(runDirectory, child.pid); await Bun.sleep(LOOK_MS)) {
    if (child.exitCode !== null || performance.now() > end) throw new Error(`the agent is not ready (exit status ${child.exitCode})`);
  }
  return {
    pid: child.pid,
    processorMs() {
      const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1000;
    },
    async longestStandstillMs() {
      const metrics = await (await fetch("http://agent/v1/metrics", { unix: join(runDirectory, "tortie.sock") })).text();
      return Number(/^tortie_event_loop_longest_standstill_seconds (\S+)$/m.exec(metrics)?.[1]) * 1000;
    },
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
