/** What a program says at once and whole: `process.stdout` writes to a pipe later. */
import { writeAll } from "../lib/system/files.ts";

/** To standard output, before the process ends. */
export function print(text: string): void {
  writeAll(1, new TextEncoder().encode(text));
}

/** To standard error. */
export function printError(text: string): void {
  writeAll(2, new TextEncoder().encode(text));
}
