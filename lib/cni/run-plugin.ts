/** One run of a CNI plugin: what can go wrong with it, in the words of CNI errors. */
import { TortieError } from "../errors/errors.ts";
import { ProgramError, type ProgramExit, runProgram } from "../system/run-program.ts";
import type { Environment } from "./environment.ts";

export interface PluginRun {
  readonly stdin: Uint8Array;
  readonly env: Environment;
  /** Milliseconds, over all attempts to start. */
  readonly timeoutMs: number;
  /** Ends the run when it aborts. */
  readonly signal?: AbortSignal | undefined;
}

/** A result has some hundred bytes; a program that prints this much is out of its mind. */
const MAX_STDOUT = 4 * 1024 * 1024;

/**
 * Runs `executable` with `stdin` on its standard input and our standard error as its own.
 *
 * @throws TortieError `delegate-failed` when it cannot be started, `delegate-timeout`, `delegate-output` when it prints too much; the
 * signal's reason
 */
export async function runPlugin(executable: string, run: PluginRun): Promise<ProgramExit> {
  try {
    return await runProgram({ command: [executable], ...run, maxOutput: MAX_STDOUT });
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error;
    switch (error.kind) {
      case "not-started":
        throw new TortieError("delegate-failed", `cannot run plugin ${executable}: ${error.message}`, { cause: error.cause });
      case "too-late":
        throw new TortieError("delegate-timeout", `plugin ${executable} (${run.env.CNI_COMMAND}) ${error.message}`);
      case "aborted":
        throw error.cause;
      case "too-much-output":
        throw new TortieError("delegate-output", `plugin ${executable} ${error.message}`);
    }
  }
}
