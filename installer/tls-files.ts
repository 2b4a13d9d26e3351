/** Certificates and key for etcd, from a mounted secret into the directory that the plugins read (C§9.3, steps 1 and 4). */
import { readdirSync, rmdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { isThere } from "../lib/system/files.ts";
import { copyWhole, makeDirectory, removeWhole } from "./files.ts";
import type { InstallSettings } from "./settings.ts";
import { TLS_FILES } from "./template.ts";

const NAMES: readonly string[] = Object.values(TLS_FILES);

/**
 * Only the three files are copied, never what else the directory holds. A file that is no longer given is removed; nothing of the
 * directory is gone in between, as it is for a moment with Calico's installer.
 *
 * @returns the names that are installed
 */
export function installTlsFiles(
  { tlsDir, netDir }: Pick<InstallSettings, "tlsDir" | "netDir">,
  log: (line: string) => void,
): ReadonlySet<string> {
  const target = join(netDir, "calico-tls");
  const given = NAMES.filter((name) => isFile(join(tlsDir, name)));
  if (given.length > 0) {
    makeDirectory(target, 0o700);
    for (const name of NAMES) {
      if (!given.includes(name)) log(`warning: ${join(tlsDir, name)} is not there`);
      else if (copyWhole(join(tlsDir, name), join(target, name))) log(`${join(target, name)} installed`);
    }
  }
  removeOthers(target, given, log);
  return new Set(given);
}

/** What begins with a dot is what stood there before the installation. */
function removeOthers(directory: string, given: readonly string[], log: (line: string) => void): void {
  if (!isThere(directory)) return;
  for (const name of readdirSync(directory)) {
    const path = join(directory, name);
    if (!name.startsWith(".") && !given.includes(name) && removeWhole(path)) log(`${path} removed: it is not given any more`);
  }
  if (readdirSync(directory).length === 0) rmdirSync(directory);
}

/** Follows symbolic links, which is what a mounted secret consists of. */
function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
