import type { Terminal } from "./terminal.ts";

/** What a subcommand gets: where to write, and how to say its exit status. */
export interface CommandContext {
  readonly terminal: Terminal;
  finish(status: number): void;
}
