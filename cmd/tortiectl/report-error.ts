/** Errors for people: what failed, why, and what to do next. */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Terminal } from "./terminal.ts";

/** @returns the exit status, 1 */
export function reportError(terminal: Terminal, error: unknown): number {
  const { bold, red, dim } = terminal.colors;
  terminal.err(`${red("tortiectl:")} ${bold(messageOf(error))}`);
  if (error instanceof TortieError) terminal.err(`  ${dim("next")}  ${error.next} ${dim(`(${error.word})`)}`);
  else if (error instanceof Error && error.stack !== undefined) terminal.err(dim(error.stack));
  return 1;
}
