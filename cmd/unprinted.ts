/** Undoes an ADD whose result cannot be written: the runtime does not learn that there is an attachment (design, invariant 5). */
import type { Environment } from "../lib/cni/protocol.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";

/**
 * Undoes the ADD by its DEL, which runtimes send after a failed ADD too, in a process of its own.
 * @param why the result cannot be written
 * @returns `stdout-unwritable`, which says what became of the attachment
 */
export function undone(why: string, { env, stdin }: { readonly env: Environment; readonly stdin: Uint8Array }): TortieError {
  const message = `the result of ADD cannot be written to standard output: ${why}`;
  try {
    const caller = { argv0: process.argv0, env: { ...env, CNI_COMMAND: "DEL" }, stdin, stdout: "pipe", stderr: "inherit" } as const;
    const { exitCode, stdout } = Bun.spawnSync([process.execPath], caller);
    if (exitCode === 0) return new TortieError("stdout-unwritable", `${message}; the ADD is undone`);
    return new TortieError("stdout-unwritable", `${message}; its DEL failed as well`, { details: stdout.toString() });
  } catch (cause) {
    return new TortieError("stdout-unwritable", `${message}; it is not undone: ${messageOf(cause)}`, { cause });
  }
}
