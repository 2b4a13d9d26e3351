/**
 * The record of a migration under way: which stores, and what their ClusterInformation said before. With it, a migration that was killed
 * is finished by the same command, and the stores become ready again. What is copied is not recorded: comparing tells it.
 */
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { flag, isObject, parseObject, text } from "../lib/json/decode.ts";
import { writeWhole } from "../lib/system/write-whole.ts";
import type { Readiness } from "./readiness.ts";

export interface MigrationRecord {
  /** Words for the stores that stay the same from one start to the next. */
  readonly from: string;
  readonly to: string;
  readonly source: Readiness;
  readonly target: Readiness;
  /** Nothing foreign was found in the target, or it may be replaced: what differs there after a kill was written by the migration. */
  readonly isTargetOurs: boolean;
}

/** @returns `undefined` when no migration is under way @throws TortieError `migration-unfinished` when the file cannot be understood */
export function readRecord(path: string): MigrationRecord | undefined {
  let stored: string;
  try {
    stored = readFileSync(path, "utf8");
  } catch (error) {
    if (isObject(error) && error.code === "ENOENT") return undefined;
    throw unreadable(path, error);
  }
  try {
    const fields = parseObject(stored);
    return {
      from: text(fields, "from"),
      to: text(fields, "to"),
      source: readiness(fields.source),
      target: readiness(fields.target),
      isTargetOurs: flag(fields, "isTargetOurs"),
    };
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** @throws Error of node:fs */
export function writeRecord(path: string, record: MigrationRecord): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeWhole(path, `${JSON.stringify(record)}\n`, 0o600);
}

export function removeRecord(path: string): void {
  rmSync(path, { force: true });
}

function readiness(value: unknown): Readiness {
  if (typeof value === "boolean" || value === "unsaid" || value === "absent") return value;
  throw new Error(`readiness ${JSON.stringify(value)} is not known`);
}

function unreadable(path: string, cause: unknown): TortieError {
  return new TortieError("migration-unfinished", `the record ${path} of a migration cannot be read: ${messageOf(cause)}`, { cause });
}
