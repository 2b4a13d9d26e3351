/**
 * A file that others read is replaced whole (design, invariant 8): a temporary file beside it, fsync, rename, fsync of the directory.
 * A reader sees the old content or the new one.
 */
import { closeSync, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { directoryOf } from "./files.ts";

let written = 0;

/** @param mode of the file, whatever the umask is @throws Error of node:fs */
export function writeWhole(path: string, text: string, mode: number): void {
  // In the same directory, for rename(2); no two writers share a name.
  const draft = `${path}.${process.pid}-${++written}.tmp`;
  try {
    writeSynced(draft, text, mode);
    renameSync(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  syncDirectory(directoryOf(path));
}

function writeSynced(path: string, text: string, mode: number): void {
  const fd = openSync(path, "wx", mode);
  try {
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    fchmodSync(fd, mode);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Makes the names in a directory last. */
function syncDirectory(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
