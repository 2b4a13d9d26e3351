/**
 * The TypeScript program under the plugins' names, whatever stands there in the build: what serves a call where no agent does. In a build
 * with a forwarder the names of the main plugin are that one's.
 */
import { linkSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

/** The agent is always the whole program. */
export const WHOLE_PROGRAM = "tortie-node";
const NAMES = ["tortie", "tortie-ipam", "calico", "calico-ipam"];

export interface WholeProgram extends Disposable {
  /** A folder with nothing but it. */
  readonly directory: string;
}

/** @param bin the folder of a build */
export function linkWholeProgram(bin: string): WholeProgram {
  // Beside the build: links do not reach into other file systems, and a copy lies elsewhere in the page cache.
  const directory = mkdtempSync(join(dirname(bin), ".bench-"));
  for (const name of NAMES) linkSync(join(bin, WHOLE_PROGRAM), join(directory, name));
  return { directory, [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }) };
}

export function hasForwarder(bin: string): boolean {
  return statSync(join(bin, "tortie")).ino !== statSync(join(bin, WHOLE_PROGRAM)).ino;
}
