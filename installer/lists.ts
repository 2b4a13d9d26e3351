/** Lists the network configurations of a directory, as runtimes do. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { formOf } from "../lib/cni/runtime/conflist.ts";
import { isThere } from "../lib/system/files.ts";

/** Says whether runtimes read a file of this name. */
export function isConflist(path: string): boolean {
  return formOf(path) !== undefined;
}

/** Lists them in the order of runtimes, which take the first one (libcni; containerd's and CRI-O's default). */
export function conflistsIn(directory: string): readonly string[] {
  if (!isThere(directory)) return [];
  const files = readdirSync(directory, { withFileTypes: true }).filter((entry) => !entry.isDirectory() && isConflist(entry.name));
  return files.map(({ name }) => join(directory, name)).sort();
}
