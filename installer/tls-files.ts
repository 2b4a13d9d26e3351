/** Certificates and key for etcd, from a mounted secret into the directory that the plugins read (C§9.3, steps 1 and 4). */
import { chmodSync, linkSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { systemErrorCode } from "../lib/system/errno.ts";
import { directoryOf, isThere, statusOf } from "../lib/system/files.ts";
import { exchangeNames } from "../lib/system/write-whole.ts";
import { areEqual, copyWhole, PERMISSIONS, removeWhole, syncPath } from "./files.ts";
import type { InstallSettings } from "./settings.ts";
import { TLS_FILES } from "./template.ts";

const NAMES: readonly string[] = Object.values(TLS_FILES);

/** The key opens the whole datastore: only root reads it, whatever modes the mounted secret or an earlier installation had. */
const KEY_MODE = 0o600;
const DIRECTORY_MODE = 0o700;

type Places = Pick<InstallSettings, "tlsDir" | "netDir">;
type Log = (line: string) => void;

export function tlsDirectory(netDir: string): string {
  return join(netDir, "calico-tls");
}

/**
 * Only the three files are copied, never what else the directory holds. They change together: a new certificate and the old key are of
 * no use. A file that is no longer given stays until `removeOtherTlsFiles`, because the conflist names it; Calico's installer has none of
 * them for a moment.
 *
 * @returns the names that are given
 */
export function installTlsFiles({ tlsDir, netDir }: Places, log: Log): ReadonlySet<string> {
  const target = tlsDirectory(netDir);
  const given = NAMES.filter((name) => isFile(join(tlsDir, name)));
  if (given.length > 0) {
    for (const name of NAMES) if (!given.includes(name)) log(`warning: ${join(tlsDir, name)} is not there`);
    closeToOthers(target);
    const changed = given.filter((name) => !areEqual(join(tlsDir, name), join(target, name), modeOf(name)));
    if (changed.length > 0 && !areReplacedTogether(tlsDir, target, given)) {
      for (const name of changed) copyWhole(join(tlsDir, name), join(target, name), { mode: modeOf(name) });
    }
    for (const name of changed) log(`${join(target, name)} installed`);
  }
  return new Set(given);
}

/** Before a key is put there. */
function closeToOthers(directory: string): void {
  const status = statusOf(directory);
  if (status !== undefined && (status.mode & PERMISSIONS) !== DIRECTORY_MODE) chmodSync(directory, DIRECTORY_MODE);
}

/** @returns `undefined` for certificates, which have the mode of their source */
function modeOf(name: string): number | undefined {
  return name === TLS_FILES.__ETCD_KEY_FILE__ ? KEY_MODE : undefined;
}

/** Of the directory everything else; what begins with a dot is what stood there before the installation. */
export function removeOtherTlsFiles(netDir: string, given: ReadonlySet<string>, log: Log): void {
  const directory = tlsDirectory(netDir);
  if (isThere(directory)) {
    for (const name of readdirSync(directory)) {
      const path = join(directory, name);
      if (!name.startsWith(".") && !given.has(name) && removeWhole(path)) log(`${path} removed: it is not given any more`);
    }
  }
  removeTlsRemains(netDir);
}

/** The directory when nothing is in it, and what an installer that died had begun to put there. */
export function removeTlsRemains(netDir: string): void {
  const directory = tlsDirectory(netDir);
  rmSync(nextOf(directory), { recursive: true, force: true });
  if (isThere(directory) && readdirSync(directory).length === 0) rmdirSync(directory);
}

/**
 * The directory as it shall be is made beside it, and the two change names.
 *
 * @returns `false` where that cannot be: something is mounted on the directory, or the file system does not do it
 */
function areReplacedTogether(tlsDir: string, target: string, given: readonly string[]): boolean {
  const next = nextOf(target);
  const before = statusOf(target);
  rmSync(next, { recursive: true, force: true });
  try {
    mkdirSync(next, { mode: DIRECTORY_MODE });
    if (before !== undefined) {
      for (const name of readdirSync(target)) if (!given.includes(name)) linkSync(join(target, name), join(next, name));
    }
    for (const name of given) copyWhole(join(tlsDir, name), join(next, name), { mode: modeOf(name) });
    syncPath(next);
    if (before === undefined) renameSync(next, target);
    else if (!exchangeNames(next, target)) return false;
    syncPath(directoryOf(target));
    return true;
  } catch (error) {
    // A link out of what is mounted there.
    if (systemErrorCode(error) === "EXDEV") return false;
    throw error;
  } finally {
    rmSync(next, { recursive: true, force: true });
  }
}

function nextOf(directory: string): string {
  return `${directory}.tmp`;
}

/** Follows symbolic links, which is what a mounted secret consists of. */
function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
