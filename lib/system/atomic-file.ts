/** Files that others read are replaced whole (design, invariant 8): a reader sees the old content or the new, also after a power cut. */
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/**
 * Writes a file by way of a temporary one in the same directory: write, fsync, rename, fsync of the directory.
 *
 * @param mode permissions of the new file, less the umask
 * @throws the error of node:fs; the old file is untouched then, and no temporary file stays
 */
export function writeFileAtomically(path: string, content: string | Uint8Array, mode = 0o644): void {
  const directory = dirname(path);
  const temporary = join(directory, `.${basename(path)}.${randomBytes(6).toString("hex")}`);
  try {
    const fd = openSync(temporary, "wx", mode);
    try {
      writeFileSync(fd, content);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  const fd = openSync(directory, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
