/**
 * The state of one boot: after a reboot no sandbox lives and no address is granted, whatever files are left (A§0.2, A§7.3). The boot id is
 * in a file of its own, written before anything else is.
 */
import { readdirSync, renameSync, rmSync } from "node:fs";
import { isThere, makeDirectories, readText } from "../../lib/system/files.ts";
import { writeWhole } from "../../lib/system/write-whole.ts";

const STATE_MODE = 0o700;

export interface StateDirectory {
  readonly path: string;
  /** The directory was another boot's, and was put aside. */
  readonly wasReset: boolean;
}

/**
 * @param run the run directory
 * @param emptied directories of the run directory whose files mean nothing after a reboot
 */
export function openState(run: string, bootId: string, emptied: readonly string[]): StateDirectory {
  const path = `${run}/state`;
  const bootFile = `${path}/boot-id`;
  const wasReset = isThere(path) && recordedBoot(bootFile) !== bootId;
  if (wasReset) {
    renameSync(path, `${run}/old-${process.pid}-${Date.now()}`);
    for (const directory of emptied) rmSync(directory, { recursive: true, force: true });
  }
  makeDirectories(path, STATE_MODE);
  if (recordedBoot(bootFile) !== bootId) writeWhole(bootFile, `${bootId}\n`, 0o600);
  return { path, wasReset };
}

/** Removes what `openState` put aside, now or before an earlier agent was killed. */
export function removeOldStates(run: string): void {
  for (const name of readdirSync(run)) if (name.startsWith("old-")) rmSync(`${run}/${name}`, { recursive: true, force: true });
}

function recordedBoot(path: string): string | undefined {
  try {
    return readText(path).trim();
  } catch {
    return undefined;
  }
}
