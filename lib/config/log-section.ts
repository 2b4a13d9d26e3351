/** The keys `log_*` (C§1.2). */

import type { LogConfig } from "../log/log-config.ts";
import { type Decoded, integer, text } from "./codec.ts";

const DEFAULT_MAX_SIZE_MEGABYTES = 100;
const DEFAULT_MAX_AGE_DAYS = 30;
const DEFAULT_MAX_COUNT = 10;

export const logMembers = {
  log_level: text,
  log_file_path: text,
  log_file_max_size: integer,
  log_file_max_age: integer,
  log_file_max_count: integer,
};

type Given = { readonly [K in keyof typeof logMembers]: Decoded<(typeof logMembers)[K]> | undefined };

export function logConfig(given: Given): LogConfig {
  return {
    level: levelOf(given.log_level ?? ""),
    filePath: given.log_file_path || undefined,
    fileMaxSize: positiveOr(DEFAULT_MAX_SIZE_MEGABYTES, given.log_file_max_size),
    fileMaxAge: positiveOr(DEFAULT_MAX_AGE_DAYS, given.log_file_max_age),
    fileMaxCount: positiveOr(DEFAULT_MAX_COUNT, given.log_file_max_count),
  };
}

/** Any letter case; every other word means info. */
function levelOf(word: string): LogConfig["level"] {
  const level = word.toLowerCase();
  return level === "debug" || level === "error" ? level : "info";
}

export function positiveOr(standard: number, given: number | undefined): number {
  return given === undefined || given <= 0 ? standard : given;
}
