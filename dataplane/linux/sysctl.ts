/** Reads and writes kernel settings below /proc/sys. Those of the network belong to the namespace that the calling thread is in. */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { closeFile, ifReadable, O_WRONLY, openFile, readText, writeOnce } from "../../lib/system/files.ts";
import type { Sysctl } from "../desired-state.ts";

/** Reads a setting without its newline; `undefined` when it does not exist or cannot be read. */
export function readSysctl(path: string): string | undefined {
  return ifReadable(() => readText(fileOf(path)).trimEnd());
}

/**
 * Writes settings in their order, into files that exist, with one write each (C§4.3).
 * @returns the failures of those that are not required, one sentence each
 * @throws TortieError `sysctl-failed` naming the file, for one that is required
 */
export function writeSysctls(sysctls: readonly Sysctl[]): string[] {
  const failures: string[] = [];
  for (const sysctl of sysctls) {
    try {
      write(sysctl);
    } catch (cause) {
      const failure = `failed to set ${fileOf(sysctl.path)} to ${sysctl.value}: ${messageOf(cause)}`;
      if (sysctl.required) throw new TortieError("sysctl-failed", failure, { cause });
      failures.push(failure);
    }
  }
  return failures;
}

/** Returns the settings that lack their value: writing one that has it may fail for nothing, and may have effects of its own. */
export function differingSysctls(sysctls: readonly Sysctl[]): Sysctl[] {
  return sysctls.filter(({ path, value }) => readSysctl(path) !== value);
}

/** @throws SystemError */
function write({ path, value }: Sysctl): void {
  const file = fileOf(path);
  const fd = openFile(file, O_WRONLY);
  try {
    if (writeOnce(fd, new TextEncoder().encode(value), file) !== value.length) throw new Error("short write");
  } finally {
    closeFile(fd);
  }
}

function fileOf(path: string): string {
  return `/proc/sys/${path}`;
}
