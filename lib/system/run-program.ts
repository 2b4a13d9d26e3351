/**
 * Runs another program, once, bounded in time and in what it may print. Bun.spawn, since node:child_process costs 4 to 8 ms more to load.
 * The program leads a process group of its own, so that what it started can be stopped with it.
 */
import type { ReadableStreamDefaultReader } from "node:stream/web";
import { messageOf } from "../errors/errors.ts";
import { systemErrorCode } from "./errno.ts";
import { endsWithin, SYSTEM_CLOCK } from "./waiting.ts";

interface ProgramRun {
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
  readonly stdin: Uint8Array;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Milliseconds, over all attempts to start. */
  readonly timeoutMs: number;
  /** Bytes on its standard output. */
  readonly maxOutput: number;
  /** Descriptor that becomes its standard error; default: our own. */
  readonly standardError?: number | undefined;
  /** Stops the program, and all it started, when it aborts. */
  readonly signal?: AbortSignal | undefined;
}

export interface ProgramExit {
  readonly stdout: Uint8Array;
  /** `undefined` after an exit with status 0; else "exit status 3" or "signal: SIGSEGV". */
  readonly failure: string | undefined;
}

/**
 * Says why there is no exit to report: it cannot be started, was stopped because its time was over or its caller ends, or printed too much.
 */
export class ProgramError extends Error {
  override readonly name = "ProgramError";
  readonly kind: "not-started" | "too-late" | "too-much-output" | "aborted";

  constructor(kind: ProgramError["kind"], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}

/** Pauses in milliseconds before a program that is still being written ("text file busy") is tried again; C§2.5 has five of a second. */
const BUSY_PAUSES: readonly number[] = [100, 400, 1000, 1500, 2000];

/** How long, in milliseconds, to go on listening to a program that has exited and left its output open in a child of its own. */
const AFTER_EXIT = 500;

/** How long, in milliseconds, a killed program may take to be gone. */
const AFTER_KILL = 2000;

type Child = Bun.Subprocess<Uint8Array, "pipe", "inherit" | number>;

/**
 * Runs a program.
 *
 * @throws ProgramError
 */
export async function runProgram(run: ProgramRun): Promise<ProgramExit> {
  const deadline = performance.now() + run.timeoutMs;
  const child = await start(run, deadline);
  let stopped: ProgramError | undefined;
  const stop = (reason: ProgramError) => {
    stopped ??= reason;
    killGroup(child);
  };
  const timer = setTimeout(() => stop(tooLate(run)), Math.max(deadline - performance.now(), 0));
  const abort = () => stop(new ProgramError("aborted", "was stopped", run.signal?.reason));
  if (run.signal?.aborted === true) abort();
  run.signal?.addEventListener("abort", abort);

  try {
    const output = new Output(child.stdout, run.maxOutput);
    const tooMuch = () => stop(new ProgramError("too-much-output", `printed more than ${run.maxOutput} bytes and was stopped`));
    const reading = output.read(tooMuch);
    await Promise.race([reading, child.exited.then(() => endsWithin(SYSTEM_CLOCK, AFTER_EXIT, reading))]);
    output.close();
    if (stopped === undefined) await child.exited;
    if (stopped === undefined) return { stdout: output.bytes(), failure: failureOf(child) };
    await endsWithin(SYSTEM_CLOCK, AFTER_KILL, child.exited);
    throw stopped;
  } finally {
    clearTimeout(timer);
    run.signal?.removeEventListener("abort", abort);
    child.unref();
  }
}

async function start(run: ProgramRun, deadline: number): Promise<Child> {
  for (let attempt = 0; ; attempt++) {
    try {
      const { stdin, env, standardError: stderr = "inherit" } = run;
      return Bun.spawn([...run.command], { stdin, stdout: "pipe", stderr, env: { ...env }, detached: true });
    } catch (cause) {
      const wait = BUSY_PAUSES[attempt];
      if (systemErrorCode(cause) !== "ETXTBSY" || wait === undefined) throw new ProgramError("not-started", messageOf(cause), cause);
      if (performance.now() + wait > deadline) throw tooLate(run);
      await Bun.sleep(wait);
    }
  }
}

function tooLate({ timeoutMs }: ProgramRun): ProgramError {
  return new ProgramError("too-late", `did not finish within ${timeoutMs / 1000} s`);
}

/** Kills the whole process group at once; the program alone when it has left the group. */
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

/** Holds what a program prints, collected up to a limit. */
class Output {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #chunks: Uint8Array[] = [];
  readonly #limit: number;
  #length = 0;

  constructor(stream: ReadableStream<Uint8Array>, limit: number) {
    this.#reader = stream.getReader();
    this.#limit = limit;
  }

  /** Ends with the output, or after calling `tooMuch` once. */
  async read(tooMuch: () => void): Promise<void> {
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) return;
      this.#length += value.length;
      if (this.#length > this.#limit) return tooMuch();
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
