/**
 * One run of another program, bounded in time and in what it may print. Bun.spawn, since node:child_process costs 4 to 8 ms more to load.
 * The program leads a process group of its own, so that what it started can be stopped with it.
 */
import type { ReadableStreamDefaultReader } from "node:stream/web";
import { messageOf, TortieError } from "../errors/errors.ts";
import type { Environment } from "./environment.ts";
import { isSystemError } from "./system-error.ts";

export interface PluginRun {
  readonly stdin: Uint8Array;
  readonly env: Environment;
  /** Milliseconds, over all attempts to start. */
  readonly timeoutMs: number;
}

export interface PluginExit {
  readonly stdout: Uint8Array;
  /** undefined after a normal exit with status 0; else "exit status 3" or "signal: SIGSEGV". */
  readonly failure: string | undefined;
}

/** A result has some hundred bytes; a program that prints this much is out of its mind. */
const MAX_STDOUT = 4 * 1024 * 1024;

/** Pauses in milliseconds before a program that is still being written ("text file busy") is tried again; C§2.5 has five of a second. */
const BUSY_PAUSES: readonly number[] = [100, 400, 1000, 1500, 2000];

/** How long, in milliseconds, to go on listening to a program that has exited and left its output open in a child of its own. */
const AFTER_EXIT = 500;

/** How long, in milliseconds, a killed program may take to be gone. */
const AFTER_KILL = 2000;

type Child = Bun.Subprocess<Uint8Array, "pipe", "inherit">;

/**
 * Runs `executable` with `stdin` on its standard input and our standard error as its own.
 *
 * @throws TortieError `delegate-failed` when it cannot be started, `delegate-timeout`, `delegate-output` when it prints too much
 */
export async function runPlugin(executable: string, run: PluginRun): Promise<PluginExit> {
  const deadline = performance.now() + run.timeoutMs;
  const child = await start(executable, run, deadline);
  let stopped: TortieError | undefined;
  const stop = (reason: TortieError) => {
    stopped ??= reason;
    killGroup(child);
  };
  const timer = setTimeout(() => stop(timeoutOf(executable, run)), Math.max(deadline - performance.now(), 0));

  try {
    const output = new Output(child.stdout);
    const tooMuch = () =>
      stop(new TortieError("delegate-output", `plugin ${executable} printed more than ${MAX_STDOUT} bytes and was stopped`));
    const reading = output.read(tooMuch);
    await Promise.race([reading, child.exited.then(() => upTo(AFTER_EXIT, reading))]);
    output.close();
    if (stopped === undefined) await child.exited;
    if (stopped === undefined) return { stdout: output.bytes(), failure: failureOf(child) };
    await upTo(AFTER_KILL, child.exited);
    throw stopped;
  } finally {
    clearTimeout(timer);
    child.unref();
  }
}

async function start(executable: string, run: PluginRun, deadline: number): Promise<Child> {
  for (let attempt = 0; ; attempt++) {
    try {
      return Bun.spawn([executable], { stdin: run.stdin, stdout: "pipe", stderr: "inherit", env: { ...run.env }, detached: true });
    } catch (cause) {
      const wait = BUSY_PAUSES[attempt];
      if (!isSystemError(cause, "ETXTBSY") || wait === undefined)
        throw new TortieError("delegate-failed", `cannot run plugin ${executable}: ${messageOf(cause)}`, { cause });
      if (performance.now() + wait > deadline) throw timeoutOf(executable, run);
      await Bun.sleep(wait);
    }
  }
}

function timeoutOf(executable: string, run: PluginRun): TortieError {
  return new TortieError(
    "delegate-timeout",
    `plugin ${executable} (${run.env.CNI_COMMAND}) did not finish within ${run.timeoutMs / 1000} s`,
  );
}

/** The whole process group at once; the program alone when it has left the group. */
function killGroup(child: Child): void {
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    child.kill("SIGKILL");
  }
}

function failureOf(child: Child): string | undefined {
  if (child.signalCode !== null) return `signal: ${child.signalCode}`;
  return child.exitCode === 0 ? undefined : `exit status ${child.exitCode}`;
}

/** Waits for `promise`, but not longer than so many milliseconds. */
async function upTo(milliseconds: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([promise, new Promise((resolve) => (timer = setTimeout(resolve, milliseconds)))]);
  clearTimeout(timer);
}

/** What a program prints, collected up to a limit. */
class Output {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #chunks: Uint8Array[] = [];
  #length = 0;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /** Ends with the output, or after calling `tooMuch` once. */
  async read(tooMuch: () => void): Promise<void> {
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) return;
      this.#length += value.length;
      if (this.#length > MAX_STDOUT) return tooMuch();
      this.#chunks.push(value);
    }
  }

  close(): void {
    this.#reader.cancel().catch(() => {});
  }

  bytes(): Uint8Array {
    return this.#chunks.length === 1 && this.#chunks[0] !== undefined ? this.#chunks[0] : Buffer.concat(this.#chunks);
  }
}
