/** Servers as children that cannot outlive the process that started them, and that another module of that process can find again by a file. */
import { execFile, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const SETPRIV = "/usr/bin/setpriv";
const END_LIMIT_MS = 10_000;
/** Only ends what hangs. */
const RUN_LIMIT_MS = 240_000;

/**
 * Starts a program in a session of its own, with its output appended to `log` and its process id in `pidFile`. The kernel kills it
 * when the calling process dies, however that happens (prctl(2), PR_SET_PDEATHSIG).
 *
 * @returns the process id
 */
export function startProcess(argv: readonly string[], log: string, pidFile?: string, cwd?: string): number {
  const output = openSync(log, "a");
  try {
    const child = spawn(SETPRIV, ["--pdeathsig", "KILL", "--", ...argv], { detached: true, cwd, stdio: ["ignore", output, output] });
    // Without a listener a failure to start would end Jest; with it the one who waits for the server says what is missing.
    child.on("error", () => undefined);
    child.unref();
    if (child.pid === undefined) throw new Error(`${argv[0]} could not be started`);
    if (pidFile !== undefined) writeFileSync(pidFile, String(child.pid));
    return child.pid;
  } finally {
    closeSync(output);
  }
}

export interface EndedProgram {
  /** -1 when a signal has ended it. */
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, with nothing but `env` in its environment. */
export function runProgram(program: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<EndedProgram> {
  return new Promise((done) => {
    execFile(program, args, { env, timeout: RUN_LIMIT_MS }, (error, stdout, stderr) => {
      done({ exit: typeof error?.code === "number" ? error.code : error === null ? 0 : -1, stdout, stderr });
    });
  });
}

/** Kills a process and waits until it is gone; nothing happens when there is none. */
export async function endProcess(pid: number | undefined): Promise<void> {
  if (pid === undefined || !isRunning(pid)) return;
  process.kill(pid, "SIGKILL");
  const deadline = Date.now() + END_LIMIT_MS;
  while (isRunning(pid)) {
    if (Date.now() > deadline) throw new Error(`process ${pid} is still there ${END_LIMIT_MS} ms after SIGKILL`);
    await pause(5);
  }
}

/** Stops a process, or lets it go on; returns when all its threads stand still, which the kernel does one after the other. */
export function signalProcess(pid: number | undefined, signal: "SIGSTOP" | "SIGCONT"): void {
  if (pid === undefined || !isRunning(pid)) return;
  process.kill(pid, signal);
  if (signal === "SIGCONT") return;
  const deadline = Date.now() + END_LIMIT_MS;
  while (!readdirSync(`/proc/${pid}/task`).every((thread) => stateOf(`/proc/${pid}/task/${thread}`) === "T")) {
    if (Date.now() > deadline) throw new Error(`process ${pid} still runs ${END_LIMIT_MS} ms after SIGSTOP`);
    Bun.sleepSync(1);
  }
}

/** Neither gone nor a zombie that only has to be collected. Its sockets are open until the last of its threads has ended. */
export function isRunning(pid: number): boolean {
  const state = stateOf(`/proc/${pid}`);
  if (state === undefined || state === "X") return false;
  return state !== "Z" || threadsOf(pid).length > 1;
}

function threadsOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** The letter of proc_pid_stat(5); `undefined` when the process or thread is gone. */
function stateOf(folder: string): string | undefined {
  try {
    const stat = readFileSync(`${folder}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3);
  } catch {
    return undefined;
  }
}

/** Programs of this machine's other processes, with their arguments. */
export function commandLines(): readonly (readonly string[])[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return pids.flatMap((pid) => {
    try {
      return [readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")];
    } catch {
      return [];
    }
  });
}

export function readPid(pidFile: string): number | undefined {
  try {
    return Number(readFileSync(pidFile, "utf8"));
  } catch {
    return undefined;
  }
}

export function forgetPid(pidFile: string): void {
  rmSync(pidFile, { force: true });
}

export function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
