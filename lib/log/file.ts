/** The log file that many processes write at once: one append each, rotated by whoever finds it too large (C§1.2, `log_file_*`). */
import { closeSync, constants, fstatSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { LogConfig } from "../config/network-config.ts";
import { messageOf } from "../errors.ts";
import { systemErrorCode, systemErrorText } from "../system/errno.ts";
import { rotate } from "./rotate.ts";
import { writeAll } from "./write.ts";

const BYTES_PER_MEGABYTE = 1_000_000;

/** A rotation under way may remove the file between open and write; the second time there is a new one. */
const TRIES = 3;

/** Without O_NONBLOCK the open of a FIFO that nobody reads would wait for ever (fifo(7)); regular files do not know the flag. */
const APPEND = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;

/**
 * Appends whole lines. What goes wrong never fails the operation.
 * @returns what went wrong, for standard error
 */
export function appendToLogFile(config: LogConfig, path: string, lines: Uint8Array): string | undefined {
  const maxBytes = config.fileMaxSize * BYTES_PER_MEGABYTE;
  try {
    let file = append(path, lines);
    for (let left = TRIES - 1; left > 0 && file.isRemoved; left--) file = append(path, lines);
    if (file.size >= maxBytes) rotate(path, { maxBytes, maxAgeDays: config.fileMaxAge, maxCount: config.fileMaxCount });
    return undefined;
  } catch (error) {
    return `cannot write the log file ${path}: ${systemErrorText(error) ?? messageOf(error)}`;
  }
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
  const fd = openForAppend(path);
  try {
    writeAll(fd, lines);
    const { size, nlink } = fstatSync(fd);
    return { size, isRemoved: nlink === 0 };
  } finally {
    closeSync(fd);
  }
}

function openForAppend(path: string): number {
  try {
    return openSync(path, APPEND, 0o644);
  } catch (error) {
    if (systemErrorCode(error) !== "ENOENT") throw error;
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    return openSync(path, APPEND, 0o644);
  }
}
