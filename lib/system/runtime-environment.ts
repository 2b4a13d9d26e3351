/**
 * Variables that change what the JavaScript runtime inside the executable does, before and behind the program's back: BUN_OPTIONS loads any
 * file first (--preload), BUN_INSPECT opens a debugger, BUN_JSC_* turns parts of the engine on and off, BUN_CONFIG_VERBOSE_FETCH prints
 * requests with their tokens. Bun has no build option that turns them off. BUN_BE_BUN cannot be refused here: with it the executable is
 * Bun, and never reaches the program (SECURITY.md).
 */
import { TortieError } from "../errors/errors.ts";
import { refusedVariables } from "./refused-variables.ts";

/** @throws TortieError `runtime-variable` when one of them is set */
export function refuseRuntimeVariables(env: Readonly<Record<string, string | undefined>>): void {
  const set = refusedVariables(env);
  if (set.length > 0) throw new TortieError("runtime-variable", `the environment changes the JavaScript runtime: ${set.join(", ")}`);
}
