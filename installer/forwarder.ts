/**
 * The forwarder (forwarder/forwarder.c): what a runtime calls by the main plugin's name. It stands in front of the program, which lies beside
 * it under that name and "-main". A build without a C compiler has none; the main plugin's name is the program's own then.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { directoryOf, statusOf } from "../lib/system/files.ts";

/** The text in the file that says what it is. */
const MARK = "TORTIE-FORWARDER ";
/** The program is a hundred times as large, and is not read. */
const MOST_BYTES = 4 << 20;

/** Files to install from. */
export interface Sources {
  readonly program: string;
  /** `undefined` where the build has none. */
  readonly forwarder: string | undefined;
}

/** @param source the program by one of its names, or the forwarder */
export function sourcesOf(source: string): Sources {
  if (isForwarder(source)) return { program: programOf(source), forwarder: source };
  const beside = join(directoryOf(source), "tortie");
  return { program: source, forwarder: isForwarder(beside) ? beside : undefined };
}

/** Where a forwarder finds its program. */
export function programOf(forwarder: string): string {
  return `${forwarder}-main`;
}

export function isForwarder(path: string): boolean {
  const status = statusOf(path);
  return status?.isFile === true && status.size <= MOST_BYTES && readFileSync(path).includes(MARK);
}
