/**
 * Files of a build change places whole (A§5.7): they are written into `<id>_next`, which then takes the place of `<id>`. The record and
 * the log go along as hard links, so that whatever is killed between the two renames, one directory has all of them.
 */
import { linkSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { systemErrorCode } from "../../../lib/system/errno.ts";
import { type EndpointDirectories, LOG_FILE, RECORD_FILE } from "../record/directories.ts";

/** An empty `<id>_next`. @returns its path */
export function prepareNext(directories: EndpointDirectories, id: number): string {
  directories.remove(id, "_next");
  directories.create(id, "_next");
  return directories.path(id, "_next");
}

/** `<id>_next` becomes `<id>`. Synchronous: no other code of this process sees the moment between. */
export function adoptNext(directories: EndpointDirectories, id: number): void {
  for (const file of [RECORD_FILE, LOG_FILE]) linkInto(directories.path(id, "_next"), directories.path(id), file);
  directories.remove(id, "_stale");
  directories.rename(id, "", "_stale");
  try {
    directories.rename(id, "_next", "");
  } catch (error) {
    directories.rename(id, "_stale", "");
    throw error;
  }
  directories.remove(id, "_stale");
  directories.remove(id, "_next_fail");
}

/** Keeps the files of a failed build for a person to look at. */
export function keepFailed(directories: EndpointDirectories, id: number): void {
  directories.remove(id, "_next_fail");
  directories.rename(id, "_next", "_next_fail");
}

function linkInto(next: string, present: string, file: string): void {
  const target = join(next, file);
  rmSync(`${target}.link`, { force: true });
  try {
    linkSync(join(present, file), `${target}.link`);
  } catch (error) {
    if (systemErrorCode(error) === "ENOENT") return;
    throw error;
  }
  renameSync(`${target}.link`, target);
}
