/**
 * The log of one operation: lines are collected and written once, at the end, to standard error and to `log_file_path`. Standard output
 * belongs to the CNI result (design, invariant 1).
 */
import type { LogConfig } from "../config/network-config.ts";
import { writeAll } from "../system/files.ts";
import { appendToLogFile } from "./file.ts";
import { formatFields, formatLine, type LogFields, redact } from "./format.ts";

export type { LogFields } from "./format.ts";

export type LogLevel = LogConfig["level"];

/** Whose operation it is; a `CniRequest` is one. */
export interface OperationIdentity {
  readonly command: string;
  readonly network: string;
  readonly containerId: string;
  readonly interfaceName: string;
}

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** The time since the last step, or since the logger was made, was spent on `name`. Times of one name add up. */
  step(name: string): void;
  /** Writes everything; the last line gets the time of each step and of the whole process. Never throws. May be called again. */
  flush(): Promise<void>;
}

/** Where lines go besides the file, and the clocks: given by tests. */
export interface LoggerOptions {
  /** Texts that must never appear: tokens and the like. */
  readonly secrets?: readonly (string | undefined)[];
  readonly now?: () => Date;
  /** Milliseconds since the process began. */
  readonly uptime?: () => number;
  readonly standardError?: number;
}

const SEVERITY = { debug: 0, info: 1, error: 2 } as const;

const STANDARD_ERROR = 2;

export function createLogger(config: LogConfig, operation: OperationIdentity, options: LoggerOptions = {}): Logger {
  const { now = () => new Date(), uptime = () => performance.now(), standardError = STANDARD_ERROR } = options;
  const secrets = (options.secrets ?? []).filter((secret) => secret !== undefined).filter((secret) => secret !== "");
  const identity = formatFields({
    command: operation.command,
    network: operation.network,
    container: operation.containerId,
    interface: operation.interfaceName,
    pid: process.pid,
  });
  const steps = new Map<string, number>();
  let lines: string[] = [];
  let lastStep = uptime();

  const record = (level: LogLevel, message: string, fields: LogFields = {}) => {
    if (SEVERITY[level] < SEVERITY[config.level]) return;
    lines.push(formatLine(now(), level, message, identity, fields));
  };

  return {
    debug: (message, fields) => record("debug", message, fields),
    info: (message, fields) => record("info", message, fields),
    error: (message, fields) => record("error", message, fields),
    step(name) {
      const at = uptime();
      steps.set(name, (steps.get(name) ?? 0) + at - lastStep);
      lastStep = at;
    },
    async flush() {
      const times = timesOf(steps, uptime());
      if (lines.length === 0 && steps.size > 0) record("info", "served");
      steps.clear();
      const last = lines.pop();
      if (last === undefined) return;
      lines.push(`${last} ${times}`);
      const text = redact(lines.join("\n"), secrets);
      lines = [];
      const bytes = encode(`${text}\n`);
      writeQuietly(standardError, bytes);
      const problem = config.filePath === undefined ? undefined : await appendToLogFile(config, config.filePath, bytes);
      if (problem !== undefined) writeQuietly(standardError, encode(`${formatLine(now(), "error", problem, identity, {})}\n`));
    },
  };
}

/** `steps="plan=0.4 ipam=2.1" total_ms=9.8`, in milliseconds; total counts from the start of the process. */
function timesOf(steps: ReadonlyMap<string, number>, total: number): string {
  const list = [...steps].map(([name, milliseconds]) => `${name}=${milliseconds.toFixed(1)}`).join(" ");
  // Quoted here: nothing of it has to be looked into (docs/benchmarks.md, regular expressions).
  return `${list === "" ? "" : `steps_ms="${list}" `}total_ms=${total.toFixed(1)}`;
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** A closed or full standard error must not fail the operation. */
function writeQuietly(fd: number, bytes: Uint8Array): void {
  try {
    writeAll(fd, bytes);
  } catch {
    // Nobody is left who could be told.
  }
}
