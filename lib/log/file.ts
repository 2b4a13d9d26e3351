/**
 * Writes the log file that many processes share: each appends its lines in one write, and the first to find the file too large rotates it
 * (C§1.2, `log_file_*`).
 */

import { messageOf } from "../errors/errors.ts";
import { systemErrorText } from "../system/errno.ts";
import { closeFile, O_APPEND, O_CREAT, O_NONBLOCK, O_WRONLY, openMakingDirectories, statusOfOpen, writeAll } from "../system/files.ts";

const BYTES_PER_MEGABYTE = 1_000_000;

/** A rotation under way may remove the file between open and write. Small files under load are rotated several times meanwhile. */
const TRIES = 20;

/** A finished operation waits no longer for the reader of a FIFO; it drops the rest of its lines. */
const WRITE_LIMIT_MS = 1_000;

/** Without O_NONBLOCK, opening a FIFO that has no reader would wait for ever (fifo(7)); regular files ignore the flag. */
const APPEND = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK;

/**
 * Appends whole lines, and rotates a file that has become too large. What goes wrong never fails the operation.
 * @returns what went wrong, for standard error
 */
export async function appendToLogFile(config: LogConfig, path: string, lines: Uint8Array): Promise<string | undefined> {
  const maxBytes = config.fileMaxSize * BYTES_PER_MEGABYTE;
  try {
    if (appendWhole(path, lines) < maxBytes) return undefined;
    const { rotate } = await import("./rotate.ts");
    rotate(path, { maxBytes, maxAgeDays: config.fileMaxAge, maxCount: config.fileMaxCount });
    return undefined;
  } catch (error) {
    return problemWith(path, error);
  }
}

/** Appends whole lines at once; a file that becomes too large is rotated by a later call. @returns what went wrong, for standard error */
export function appendToLogFileNow(path: string, lines: Uint8Array): string | undefined {
  try {
    appendWhole(path, lines);
    return undefined;
  } catch (error) {
    return problemWith(path, error);
  }
}

function problemWith(path: string, error: unknown): string {
  return `cannot write the log file ${path}: ${systemErrorText(error) ?? messageOf(error)}`;
}

/** @returns the size of the file, in bytes */
function appendWhole(path: string, lines: Uint8Array): number {
  let file = append(path, lines);
  for (let left = TRIES - 1; left > 0 && file.isRemoved; left--) file = append(path, lines);
  return file.size;
}

interface Appended {
  /** Bytes, ours included. */
  readonly size: number;
  /**
   * The file was removed meanwhile, as rotation does with a file that it has compressed: our lines may be lost. Rotation reads what
   * stands in the file after it removed it, so that a line can come twice then, and never goes missing.
   */
  readonly isRemoved: boolean;
}

function append(path: string, lines: Uint8Array): Appended {
  const fd = openMakingDirectories(path, APPEND, 0o644);
  try {
    writeAll(fd, lines, path, WRITE_LIMIT_MS);
    const { size, links } = statusOfOpen(fd);
    return { size, isRemoved: links === 0 };
  } finally {
    closeFile(fd);
  }
}

/** What the network configuration says of the log (C§1.2, `log_*`). */
export interface LogConfig {
  readonly level: "debug" | "info" | "error";
  readonly filePath: string | undefined;
  /** Megabytes. */
  readonly fileMaxSize: number;
  /** Days. */
  readonly fileMaxAge: number;
  readonly fileMaxCount: number;
}
