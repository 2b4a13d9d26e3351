/**
 * Keeps the log of one operation: lines are collected and written together, to standard error and to `log_file_path`, at the end of the
 * operation or before a wait that it may not survive. Standard output belongs to the CNI result (design, invariant 1).
 */

import { messageOf } from "../errors/errors.ts";
import { writeAll } from "../system/files.ts";
import { appendToLogFile, appendToLogFileNow, type LogConfig } from "./file.ts";
import { formatFields, formatLine, type LogFields } from "./format.ts";
import { Secrets } from "./secrets.ts";

type LogLevel = LogConfig["level"];

/** Whose operation it is; a `CniRequest` is one. */
interface OperationIdentity {
  readonly command: string;
  readonly network: string;
  readonly containerId: string;
  readonly interfaceName: string;
  /** Names the trace that the operation is a part of. */
  readonly traceId?: string | undefined;
}

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Writes this line at once, after those that are collected: for what must be seen even if the process is killed next. */
  writeNow(level: LogLevel, message: string, fields?: LogFields): void;
  /** Says that the time since the last step, or since the logger was made, was spent on `name`. Times of one name add up. */
  step(name: string): void;
  /** Writes everything; the last line gets the time of each step and of the whole operation. Never throws. May be called again. */
  flush(): Promise<void>;
}

/** Where lines go besides the file, and the clocks: given by tests. */
export interface LoggerOptions {
  /** Texts that must never appear: tokens and the like. */
  readonly secrets?: Secrets;
  readonly now?: () => Date;
  /** Milliseconds of a clock that never jumps. The operation begins when its logger is made. */
  readonly clock?: () => number;
  /** Milliseconds that the operation has cost before: those of a process that was started for it. */
  readonly spentMs?: number;
  readonly standardError?: number;
}

const SEVERITY = { debug: 0, info: 1, error: 2 } as const;

const STANDARD_ERROR = 2;

/** The reader of standard error may have stopped. */
const WRITE_LIMIT_MS = 1_000;

export function createLogger(config: LogConfig, operation: OperationIdentity, options: LoggerOptions = {}): Logger {
  const { now = () => new Date(), clock = () => performance.now(), spentMs = 0 } = options;
  const identity = formatFields({
    command: operation.command,
    network: operation.network,
    container: operation.containerId,
    interface: operation.interfaceName,
    trace: operation.traceId,
    pid: process.pid,
  });
  const lines = new Lines(config, options, (level, message, fields = {}) => formatLine(now(), level, message, identity, fields));
  const begin = clock();
  const steps = new Map<string, number>();
  let lastStep = begin;
  return {
    debug: (message, fields) => lines.record("debug", message, fields),
    info: (message, fields) => lines.record("info", message, fields),
    error: (message, fields) => lines.record("error", message, fields),
    writeNow(level, message, fields) {
      lines.record(level, message, fields);
      lines.writeNow();
    },
    step(name) {
      const at = clock();
      steps.set(name, (steps.get(name) ?? 0) + at - lastStep);
      lastStep = at;
    },
    flush() {
      const times = timesOf(steps, spentMs + clock() - begin);
      if (lines.isEmpty && steps.size > 0) lines.record("info", "served");
      steps.clear();
      return lines.write(times);
    },
  };
}

type Format = (level: LogLevel, message: string, fields?: LogFields) => string;

/** Holds the lines of one operation that are not written yet. */
class Lines {
  readonly #config: LogConfig;
  readonly #secrets: Secrets;
  readonly #standardError: number;
  readonly #format: Format;
  /** A file that refused lines once gets no more of this operation, which would wait for it again. */
  #filePath: string | undefined;
  #lines: string[] = [];

  constructor(config: LogConfig, { standardError = STANDARD_ERROR, secrets = new Secrets() }: LoggerOptions, format: Format) {
    this.#config = config;
    this.#filePath = config.filePath;
    this.#secrets = secrets;
    this.#standardError = standardError;
    this.#format = format;
  }

  get isEmpty(): boolean {
    return this.#lines.length === 0;
  }

  record(level: LogLevel, message: string, fields?: LogFields): void {
    if (SEVERITY[level] >= SEVERITY[this.#config.level]) this.#lines.push(this.#format(level, message, fields));
  }

  writeNow(): void {
    const bytes = this.#toStandardError();
    if (bytes !== undefined && this.#filePath !== undefined) this.#complain(appendToLogFileNow(this.#filePath, bytes));
  }

  /** @param end goes behind the last line */
  async write(end: string): Promise<void> {
    const last = this.#lines.pop();
    if (last === undefined) return;
    this.#lines.push(`${last} ${end}`);
    const bytes = this.#toStandardError();
    if (bytes !== undefined && this.#filePath !== undefined) this.#complain(await appendToLogFile(this.#config, this.#filePath, bytes));
  }

  /** Takes the lines, and writes them to standard error. @returns them as bytes for the file; `undefined` when there is nothing to write */
  #toStandardError(): Uint8Array | undefined {
    if (this.isEmpty) return undefined;
    const text = this.#secrets.redact(this.#lines.join("\n"));
    this.#lines = [];
    const bytes = encode(`${text}\n`);
    const dropped = writeQuietly(this.#standardError, bytes);
    if (dropped === undefined) return bytes;
    return encode(`${text}\n${this.#format("error", `standard error takes nothing: ${dropped}`)}\n`);
  }

  #complain(problem: string | undefined): void {
    if (problem === undefined) return;
    this.#filePath = undefined;
    writeQuietly(this.#standardError, encode(`${this.#format("error", problem)}\n`));
  }
}

/** Writes `steps="plan=0.4 ipam=2.1" total_ms=9.8`, in milliseconds. */
function timesOf(steps: ReadonlyMap<string, number>, total: number): string {
  const list = [...steps].map(([name, milliseconds]) => `${name}=${milliseconds.toFixed(1)}`).join(" ");
  // Quoted here: nothing of it has to be looked into (docs/project/benchmarks.md, regular expressions).
  return `${list === "" ? "" : `steps_ms="${list}" `}total_ms=${total.toFixed(1)}`;
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** A closed or full standard error must not fail the operation. @returns what was wrong with it */
function writeQuietly(fd: number, bytes: Uint8Array): string | undefined {
  try {
    writeAll(fd, bytes, "standard error", WRITE_LIMIT_MS);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
