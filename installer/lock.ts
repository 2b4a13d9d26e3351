/**
 * Lets one installer at a time work on the directories of a host, and removes what installers that died have begun there. The lock is
 * flock(2) on the directories themselves: it leaves no file, and a directory that is read-only can be locked too. NFS locks no directory;
 * there installers go on side by side, which random temporary names make harmless for every single file.
 */
import { readdirSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { TortieError } from "../lib/errors/errors.ts";
import { systemErrorCode } from "../lib/system/errno.ts";
import { ifReadable, isThere } from "../lib/system/files.ts";
import { lockHolder, tryLockDirectory } from "../lib/system/flock.ts";

/** Longer than an installer waits for a token. */
const WAIT_LIMIT_MS = 120_000;
const PAUSE_MS = 50;
/** Age of a temporary file whose installer is dead or hangs, where no lock says so. */
const OLD_MS = 10 * 60_000;

/** File systems without locks of directories (fs/nfs/file.c, nfs_flock; fs/locks.c). */
const UNSUPPORTED: ReadonlySet<string> = new Set(["EBADF", "EINVAL", "ENOLCK", "ENOSYS", "EOPNOTSUPP"]);

export interface InstallationLock extends Disposable {
  /** Removes files and directories that a dead installer has begun to put at these paths. */
  removeRemains(targets: Iterable<string>): void;
}

/**
 * @param limitMs of the wait, in which this thread does nothing else
 * @throws TortieError `install-failed` when another installer works on one of the directories for so long; SystemError
 */
export function lockInstallation(directories: Iterable<string>, limitMs = WAIT_LIMIT_MS): InstallationLock {
  using stack = new DisposableStack();
  const end = performance.now() + limitMs;
  let isWhole = true;
  // In one order, so that no two installers wait for each other.
  for (const directory of [...new Set(directories)].filter(isThere).sort()) {
    const lock = lockedBefore(end, directory);
    if (lock === undefined) isWhole = false;
    else stack.use(lock);
  }
  const held = stack.move();
  return {
    removeRemains: (targets) => removeRemains(targets, isWhole ? 0 : OLD_MS),
    [Symbol.dispose]: () => held.dispose(),
  };
}

/** @returns `undefined` where the file system has no such locks */
function lockedBefore(end: number, directory: string): Disposable | undefined {
  try {
    for (;;) {
      const lock = tryLockDirectory(directory);
      if (lock !== undefined) return lock;
      if (performance.now() >= end) {
        throw new TortieError("install-failed", `another installer works on ${directory}: ${lockHolder(directory)}`);
      }
      Bun.sleepSync(PAUSE_MS);
    }
  } catch (error) {
    if (UNSUPPORTED.has(systemErrorCode(error) ?? "")) return undefined;
    throw error;
  }
}

/** Matches what follows the target in names of `temporaryOf`, and of installers before it. */
const TEMPORARY = /^\.([0-9a-f]{16}\.)?tmp$/;

function removeRemains(targets: Iterable<string>, ageMs: number): void {
  const names = Map.groupBy(targets, dirname);
  for (const [directory, paths] of names) {
    const targetNames = paths.map((path) => basename(path));
    for (const name of ifReadable(() => readdirSync(directory)) ?? []) {
      if (!targetNames.some((target) => name.startsWith(target) && TEMPORARY.test(name.slice(target.length)))) continue;
      const path = join(directory, name);
      const modified = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
      if (Date.now() - modified >= ageMs) rmSync(path, { recursive: true, force: true });
    }
  }
}
