/** Prints at once and whole (`process.stdout` writes to a pipe later), and holds the version. */
import { writeAll } from "../lib/system/files.ts";

/** Writes to standard output, before the process ends. */
export function print(text: string): void {
  writeAll(1, new TextEncoder().encode(text));
}

/** Writes to standard error. */
export function printError(text: string): void {
  writeAll(2, new TextEncoder().encode(text));
}

/** Holds the version of this build; `scripts/build` puts in the one of package.json. */
declare const TORTIE_VERSION: string | undefined;

export const VERSION: string = typeof TORTIE_VERSION === "string" ? TORTIE_VERSION : "0.0.0-source";
