/** Whole buffers to a file descriptor: write(2) may take less than it was given. */
import { writeSync } from "node:fs";

/** @throws the error of node:fs, for instance ENOSPC */
export function writeAll(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
}
