/**
 * Keeps what happened to one endpoint: a ring of 256 entries, kept in `<id>/log.jsonl` so that it survives a restart and, in `gone/`, the
 * endpoint itself (A§5.4). What one turn of the event loop adds is one write, at the turn's end.
 */
import { appendFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { field, isText, oneOf, parseObject } from "../../lib/json/decode.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { unlessMissing } from "../../lib/system/files.ts";
import { STATES, type State } from "./states.ts";

const RING_SIZE = 256;
/** The file is rewritten with what the ring holds when it grows beyond this. */
const FILE_LIMIT_BYTES = 64 * 1024;
const FILE_MODE = 0o600;

/** By falling weight: the first type whose newest entry is not OK says how the endpoint is. */
const STATUS_TYPES = ["BPF", "Policy", "Other"] as const;
export type StatusType = (typeof STATUS_TYPES)[number];
export type StatusCode = "OK" | "Warning" | "Failure" | "Disabled";

export interface StatusEntry {
  readonly code: StatusCode;
  readonly message: string;
  readonly type: StatusType;
  readonly state: State;
  /** RFC 3339, UTC. */
  readonly time: string;
}

const isCode = oneOf<StatusCode>("OK", "Warning", "Failure", "Disabled");
const isType = oneOf<StatusType>(...STATUS_TYPES);
const isState = oneOf<State>(...STATES);

export class StatusLog {
  readonly #path: string;
  /** Oldest first. */
  #entries: StatusEntry[] = [];
  readonly #current = new Map<StatusType, StatusEntry>();
  /** Lines that the file lacks. */
  #unwritten = "";
  #bytes = 0;

  /** @param path of the file; neither it nor its directory is there yet */
  constructor(path: string) {
    this.#path = path;
  }

  /** With what the file holds. Lines that cannot be read are left out: a killed process may have cut the last one. */
  static load(path: string): StatusLog {
    const log = new StatusLog(path);
    const text = unlessMissing(() => readFileSync(path, "utf8")) ?? "";
    for (const line of text.split("\n")) {
      const entry = parseEntry(line);
      if (entry !== undefined) log.#remember(entry);
    }
    log.#bytes = Buffer.byteLength(text);
    // Or what follows would be appended to the cut line.
    if (text !== "" && !text.endsWith("\n")) log.#rewrite();
    return log;
  }

  add(entry: StatusEntry): void {
    this.#remember(entry);
    if (this.#unwritten === "") setImmediate(() => this.flush());
    this.#unwritten += lineOf(entry);
  }

  /** Writes what the file lacks. Goes on when the file cannot be written: the ring has the entries. */
  flush(): void {
    const lines = this.#unwritten;
    if (lines === "") return;
    this.#unwritten = "";
    this.#bytes += Buffer.byteLength(lines);
    try {
      if (this.#bytes > FILE_LIMIT_BYTES) this.#rewrite();
      else appendFileSync(this.#path, lines, { mode: FILE_MODE });
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
    }
  }

  /** Newest first. */
  entries(): StatusEntry[] {
    return [...this.#entries].reverse();
  }

  /** How the endpoint is: of the types by falling weight the first whose newest entry is not OK, else OK. */
  status(): StatusCode {
    for (const type of STATUS_TYPES) {
      const code = this.#current.get(type)?.code;
      if (code !== undefined && code !== "OK") return code;
    }
    return "OK";
  }

  #remember(entry: StatusEntry): void {
    this.#current.set(entry.type, entry);
    this.#entries.push(entry);
    while (this.#entries.length > RING_SIZE) this.#entries.splice(this.#oldestToDrop(), 1);
  }

  /** An entry that is current and not OK is skipped when its place comes round. */
  #oldestToDrop(): number {
    const at = this.#entries.findIndex((entry) => entry.code === "OK" || this.#current.get(entry.type) !== entry);
    return Math.max(at, 0);
  }

  /** Writes what the ring holds, the oldest left out until it fills no more than half of the file. */
  #rewrite(): void {
    const lines = this.#entries.map(lineOf);
    let bytes = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0);
    while (bytes > FILE_LIMIT_BYTES / 2 && lines.length > 1) bytes -= Buffer.byteLength(lines.shift() ?? "");
    writeFileSync(`${this.#path}.tmp`, lines.join(""), { mode: FILE_MODE });
    renameSync(`${this.#path}.tmp`, this.#path);
    this.#bytes = bytes;
  }
}

function lineOf(entry: StatusEntry): string {
  return `${JSON.stringify(entry)}\n`;
}

function parseEntry(line: string): StatusEntry | undefined {
  try {
    const stored = parseObject(line);
    return {
      code: field(stored, "code", isCode),
      message: field(stored, "message", isText),
      type: field(stored, "type", isType),
      state: field(stored, "state", isState),
      time: field(stored, "time", isText),
    };
  } catch {
    return undefined;
  }
}
