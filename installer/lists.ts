/** Knows the network configurations of a directory, as runtimes read them. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { isThere } from "../lib/system/files.ts";

/** Knows the files that libcni reads (libcni/conf.go, ConfFiles). */
export function isConflist(path: string): boolean {
  return /\.(conf|conflist|json)$/.test(path);
}

/** Lists them in the order of runtimes, which take the first one (libcni; containerd's and CRI-O's default). */
export function conflistsIn(directory: string): readonly string[] {
  if (!isThere(directory)) return [];
  const names = readdirSync(directory).filter(isConflist);
  return names.sort().map((name) => join(directory, name));
}
