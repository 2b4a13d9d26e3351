/**
 * Compares, copies and writes files whole that others read while they are replaced (design, invariant 8; C§9.3). A runtime may execute
 * the old file at the same moment: it keeps the one it has opened.
 */

import { randomBytes } from "node:crypto";
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  linkSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { errnoOf, systemErrorCode } from "../lib/system/errno.ts";
import { O_CREAT, O_EXCL, O_WRONLY, openFile, removeFile, SystemError, writeAll } from "../lib/system/files.ts";

/** Counts bytes that are compared at a time (C§9.3). */
const CHUNK = 64_000;
export const PERMISSIONS = 0o7777;

/**
 * Tells whether two files have the same size, permissions and content.
 * One that is not there is equal to none.
 *
 * @param mode the permissions that `other` must have; those of `one` when absent
 * @throws on other failures
 */
export function areEqual(one: string, other: string, mode?: number): boolean {
  const status = [statusOf(one), statusOf(other)] as const;
  if (status[0] === undefined || status[1] === undefined) return false;
  if ((status[1].mode & PERMISSIONS) !== (mode ?? status[0].mode & PERMISSIONS)) return false;
  if (status[0].dev === status[1].dev && status[0].ino === status[1].ino) return true;
  if (status[0].size !== status[1].size) return false;
  const left = openSync(one, "r");
  try {
    const right = openSync(other, "r");
    try {
      return haveEqualContent(left, right);
    } finally {
      closeSync(right);
    }
  } finally {
    closeSync(left);
  }
}

function haveEqualContent(left: number, right: number): boolean {
  const [a, b] = [Buffer.alloc(CHUNK), Buffer.alloc(CHUNK)];
  for (;;) {
    const [readLeft, readRight] = [fill(left, a), fill(right, b)];
    if (readLeft !== readRight || !a.subarray(0, readLeft).equals(b.subarray(0, readRight))) return false;
    if (readLeft < CHUNK) return true;
  }
}

/** Reads on: one read(2) may give less than was asked for although more follows. */
function fill(fd: number, buffer: Buffer): number {
  let length = 0;
  while (length < buffer.length) {
    const read = readSync(fd, buffer, length, buffer.length - length, null);
    if (read === 0) break;
    length += read;
  }
  return length;
}

interface CopyOptions {
  readonly twin?: string | undefined;
  readonly mode?: number | undefined;
}

/**
 * Makes `target` equal to `source`. A copy, since the owner of the source may write to it again; a further name of a file that was
 * installed already is a hard link (`twin`), so that its bytes are once on disk and in memory. Permissions are right before the name is:
 * between the two, a runtime could find a file that it may not execute.
 *
 * @param mode the permissions of `target`; those of `source` when absent
 * @param twin an installed file that is equal to `source`, on the file system of `target`
 * @returns whether anything had to be done
 */
export function copyWhole(source: string, target: string, { twin, mode }: CopyOptions = {}): boolean {
  if (areEqual(source, target, mode)) return false;
  makeAndPut(target, (temporary) => {
    if (twin !== undefined) return linkSync(twin, temporary);
    copyFileSync(source, temporary, constants.COPYFILE_FICLONE);
    chmodSync(temporary, mode ?? statSync(source).mode & PERMISSIONS);
    syncPath(temporary);
  });
  return true;
}

/** Writes a file whole. @returns whether it changed */
export function writeWhole(target: string, text: string, mode: number): boolean {
  const bytes = new TextEncoder().encode(text);
  if (holds(target, bytes, mode)) return false;
  makeAndPut(target, (temporary) => {
    const fd = openFile(temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
    try {
      writeAll(fd, bytes, temporary);
    } finally {
      closeSync(fd);
    }
    chmodSync(temporary, mode);
    syncPath(temporary);
  });
  return true;
}

/** Removes a file and makes that durable. @returns whether there was one */
export function removeWhole(path: string): boolean {
  try {
    lstatSync(path);
  } catch {
    return false;
  }
  removeFile(path);
  syncPath(dirname(path));
  return true;
}

/**
 * Tells whether files can be made in a directory. Calico's installer makes one and removes it (C§9.3), which one that is killed leaves behind.
 *
 * @returns why not, or `undefined`
 */
export function whyNotWritable(directory: string): string | undefined {
  try {
    accessSync(directory, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return systemErrorCode(error) ?? String(error);
  }
}

/** Puts a file in place. Whatever fails, what was made until then goes: it may be what has filled the disk. */
function makeAndPut(target: string, make: (temporary: string) => void): void {
  const temporary = temporaryOf(target);
  try {
    make(temporary);
    putInPlace(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/**
 * This process's part of temporary names: random, so that another installer cannot put half of a file of this one into its place. Process
 * ids will not do: two containers have the same. Tests that compare the system calls of two runs set it.
 */
const OWN = process.env.TORTIE_INSTALL_TEMPORARY ?? randomBytes(8).toString("hex");

/** Makes a name that no runtime takes for a plugin or for a configuration, on the file system of the target. */
export function temporaryOf(target: string): string {
  return `${target}.${OWN}.tmp`;
}

function putInPlace(temporary: string, target: string): void {
  // Two names of one file: rename(2) would do nothing and leave the temporary one.
  const [from, to] = [statusOf(temporary), statusOf(target)];
  if (from !== undefined && to !== undefined && from.dev === to.dev && from.ino === to.ino) removeFile(temporary);
  else renameSync(temporary, target);
  syncPath(dirname(target));
}

/** Makes durable what a file holds, or which names a directory has. */
export function syncPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } catch (error) {
    // Of a descriptor: the runtime names no path.
    throw new SystemError("fsync", path, errnoOf(error));
  } finally {
    closeSync(fd);
  }
}

function holds(path: string, bytes: Uint8Array, mode: number): boolean {
  const status = statusOf(path);
  if (status === undefined || status.size !== bytes.length || (status.mode & PERMISSIONS) !== mode) return false;
  const fd = openSync(path, "r");
  try {
    const found = Buffer.alloc(bytes.length);
    return fill(fd, found) === bytes.length && found.equals(bytes);
  } finally {
    closeSync(fd);
  }
}

function statusOf(path: string) {
  return statSync(path, { throwIfNoEntry: false });
}
