/**
 * Rotates a log file that many processes append to: it is renamed under a lock, then compressed without one, old ones removed.
 *
 * `cni.log` becomes `cni.log-2026-11-21T09-24-26.179Z-<pid>.<n>`, then `….zst` of it. A process that is killed in between leaves the
 * uncompressed file, which counts and ages like the others.
 */
import { closeSync, fstatSync, lstatSync, openSync, readdirSync, readlinkSync, readSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { writeAll } from "../system/files.ts";
import { lockFile } from "../system/flock.ts";

/** Tells the rotations of one process within one millisecond apart. */
let rotations = 0;

export interface RotationLimits {
  readonly maxBytes: number;
  readonly maxAgeDays: number;
  /** Rotated files that are kept, the file being written not counted. */
  readonly maxCount: number;
}

/** The kernel follows as many (path_resolution(7)). */
const MAX_LINKS = 40;

const MS_PER_DAY = 86_400_000;

/** Bounds the memory of a rotation; each piece becomes a frame of its own, which zstd reads as one stream (RFC 8878, 3.1). */
const PIECE_BYTES = 1 << 18;

/** The fastest: an operation of a container waits for it. */
const COMPRESSION = { level: 1 };

/** @throws the error of node:fs */
export function rotate(path: string, limits: RotationLimits, now: () => Date = () => new Date()): void {
  const file = followLinks(path);
  const rotated = moveAside(file, limits.maxBytes, now());
  if (rotated === undefined) return;
  compress(rotated);
  removeOld(file, limits, now().getTime());
}

/**
 * A symbolic link must keep pointing at the log: the file behind it is what moves. Not realpath(3), which Bun asks of an open file: that
 * one may have been renamed by another process meanwhile.
 */
function followLinks(path: string): string {
  let file = path;
  for (let left = MAX_LINKS; left > 0 && lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink(); left--) {
    file = resolve(dirname(file), readlinkSync(file));
  }
  return file;
}

/** Several processes may find the file too large; only the first renames it, because the size is read again under the lock. */
function moveAside(path: string, maxBytes: number, time: Date): string | undefined {
  using _ = lockFile(`${path}.lock`);
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size < maxBytes) return undefined;
  const rotated = `${path}-${time.toISOString().replaceAll(":", "-")}-${process.pid}.${rotations++}`;
  renameSync(path, rotated);
  return rotated;
}

/**
 * The plain file is removed before its tail is read: a process that still writes into it notices the removal and writes the
 * line again to the new file (append in file.ts). Lines written before the removal are read here.
 */
function compress(plain: string): void {
  const source = openSync(plain, "r");
  const target = openSync(`${plain}.zst`, "wx", fstatSync(source).mode & 0o777);
  try {
    copyCompressed(source, target);
    rmSync(plain, { force: true });
    copyCompressed(source, target);
  } finally {
    closeSync(source);
    closeSync(target);
  }
}

/** Copies from where the source stands to its end. */
function copyCompressed(source: number, target: number): void {
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  for (;;) {
    const length = readSync(source, piece, 0, PIECE_BYTES, null);
    if (length === 0) return;
    writeAll(target, Bun.zstdCompressSync(piece.subarray(0, length), COMPRESSION));
  }
}

/** A file and its compressed form count as one: both are there while another process compresses it. */
function removeOld(path: string, limits: RotationLimits, now: number): void {
  const prefix = `${basename(path)}-`;
  const stamps = readdirSync(dirname(path))
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length).replace(/\.zst$/, ""))
    .filter((stamp) => timeOf(stamp) !== undefined);
  const newestFirst = [...new Set(stamps)].sort().reverse();
  for (const [index, stamp] of newestFirst.entries()) {
    const age = now - (timeOf(stamp) ?? now);
    if (index < limits.maxCount && age <= limits.maxAgeDays * MS_PER_DAY) continue;
    for (const suffix of ["", ".zst"]) rmSync(join(dirname(path), prefix + stamp + suffix), { force: true });
  }
}

/** Milliseconds since 1970 of "2026-11-21T09-24-26.179Z-<pid>.<n>"; `undefined` for the name of a file that is not ours. */
function timeOf(stamp: string): number | undefined {
  const parts = /^(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d\.\d{3}Z)-\d+\.\d+$/.exec(stamp);
  return parts === null ? undefined : Date.parse(`${parts[1]}T${parts[2]}:${parts[3]}:${parts[4]}`);
}
