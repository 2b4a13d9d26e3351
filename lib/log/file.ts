/** The log file that many processes write at once: one append each, rotated by whoever finds it too large (C§1.2, `log_file_*`). */
import type { LogConfig } from "../config/network-config.ts";
import { messageOf } from "../errors/errors.ts";
import { systemErrorCode, systemErrorText } from "../system/errno.ts";
import {
  closeFile,
  directoryOf,
  makeDirectories,
  O_APPEND,
  O_CREAT,
  O_NONBLOCK,
  O_WRONLY,
  openFile,
  statusOfOpen,
  writeAll,
} from "../system/files.ts";

const BYTES_PER_MEGABYTE = 1_000_000;

/** A rotation under way may remove the file between open and write; the second time there is a new one. */
const TRIES = 3;

/** Without O_NONBLOCK the open of a FIFO that nobody reads would wait for ever (fifo(7)); regular files do not know the flag. */
const APPEND = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK;

/**
 * Appends whole lines. What goes wrong never fails the operation.
 * @returns what went wrong, for standard error
 */
export async function appendToLogFile(config: LogConfig, path: string, lines: Uint8Array): Promise<string | undefined> {
  const maxBytes = config.fileMaxSize * BYTES_PER_MEGABYTE;
  try {
    let file = append(path, lines);
    for (let left = TRIES - 1; left > 0 && file.isRemoved; left--) file = append(path, lines);
    if (file.size >= maxBytes) {
      const { rotate } = await import("./rotate.ts");
      rotate(path, { maxBytes, maxAgeDays: config.fileMaxAge, maxCount: config.fileMaxCount });
    }
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
    const { size, links } = statusOfOpen(fd);
    return { size, isRemoved: links === 0 };
  } finally {
    closeFile(fd);
  }
}

function openForAppend(path: string): number {
  try {
    return openFile(path, APPEND, 0o644);
  } catch (error) {
    if (systemErrorCode(error) !== "ENOENT") throw error;
    makeDirectories(directoryOf(path), 0o755);
    return openFile(path, APPEND, 0o644);
  }
}
