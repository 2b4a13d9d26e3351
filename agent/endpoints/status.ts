/**
 * Says which states an endpoint has and which may follow which (A§5.2, A§5.3), and keeps what happened to it: a ring of 256 entries, kept
 * in `<id>/log.jsonl` so that it survives a restart and, in `gone/`, the endpoint itself (A§5.4). Writes once at the end of a turn of the
 * event loop whatever that turn added.
 */
import { appendFileSync, readFileSync } from "node:fs";
import { field, isText, oneOf, parseObject } from "../../lib/json/decode.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { unlessMissing } from "../../lib/system/files.ts";
import { writeWhole } from "../../lib/system/write-whole.ts";

/** The states in the order of an endpoint's life. The words are the API's. */
export const STATES = [
  /** Just made, and not visible yet. */
  "none",
  /** The attachment is journalled and nothing is visible yet (A§11.4). */
  "creating",
  /** The links are made, the ADD is not committed. Mending is allowed and leaves the state. */
  "waiting-for-identity",
  /** Nothing pending. */
  "ready",
  /** Mending is asked for. */
  "waiting-to-regenerate",
  "regenerating",
  /** Read back after a restart, not yet mended. */
  "restoring",
  "disconnecting",
  "disconnected",
] as const;
export type State = (typeof STATES)[number];

/** Who asks: the mending of the endpoint while it runs, or any other code. */
export type Actor = "anybody" | "builder";

/** `overtaken`: refused without an entry in the log, because what was wanted has been asked for already, or is out of date. */
export type Verdict = "allowed" | "overtaken" | "refused";

type Rule = Actor | "overtaken" | "overtaken-for-builder";

const TRANSITIONS: Readonly<Record<State, Partial<Readonly<Record<State, Rule>>>>> = {
  none: { creating: "anybody", restoring: "anybody" },
  creating: { "waiting-for-identity": "anybody", disconnecting: "anybody" },
  "waiting-for-identity": { ready: "anybody", disconnecting: "anybody" },
  ready: { "waiting-to-regenerate": "anybody", disconnecting: "anybody" },
  "waiting-to-regenerate": {
    // The run that just ended was overtaken.
    ready: "overtaken-for-builder",
    "waiting-to-regenerate": "overtaken",
    regenerating: "builder",
    disconnecting: "anybody",
  },
  regenerating: { ready: "builder", "waiting-to-regenerate": "anybody", disconnecting: "anybody" },
  restoring: { regenerating: "builder", disconnecting: "anybody" },
  disconnecting: { disconnected: "anybody" },
  disconnected: {},
};

/** Judges whether an endpoint in state `from` may become `to`. */
export function judgeTransition(from: State, to: State, actor: Actor): Verdict {
  const rule = TRANSITIONS[from][to];
  if (rule === "overtaken") return "overtaken";
  if (rule === "overtaken-for-builder") return actor === "builder" ? "overtaken" : "refused";
  return rule === "anybody" || (rule === "builder" && actor === "builder") ? "allowed" : "refused";
}

/** Says whether the link of an endpoint in this state is mended at all. */
export function allowsBuild(state: State): boolean {
  return ["waiting-for-identity", "ready", "waiting-to-regenerate", "regenerating", "restoring"].includes(state);
}

/** Says whether the endpoint is being removed, or has been. */
export function isEnded(state: State): boolean {
  return state === "disconnecting" || state === "disconnected";
}

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
  /** Of the file; infinite where its end is cut or its lines are not all there, so that the next flush rewrites it. */
  #bytes = 0;

  /** @param path of the file; neither it nor its directory is there yet */
  constructor(path: string) {
    this.#path = path;
  }

  /** Loads what the file holds. Leaves out lines that cannot be read: a killed process may have cut the last one. */
  static load(path: string): StatusLog {
    const log = new StatusLog(path);
    const text = unlessMissing(() => readFileSync(path, "utf8")) ?? "";
    for (const line of text.split("\n")) {
      const entry = parseEntry(line);
      if (entry !== undefined) log.#remember(entry);
    }
    log.#bytes = text === "" || text.endsWith("\n") ? Buffer.byteLength(text) : Number.POSITIVE_INFINITY;
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
      this.#bytes = Number.POSITIVE_INFINITY;
    }
  }

  /** Lists the entries, newest first. */
  entries(): StatusEntry[] {
    return [...this.#entries].reverse();
  }

  /** Says how the endpoint is, by the heaviest type whose newest entry is not OK, else OK. */
  status(): StatusCode {
    return this.problem()?.code ?? "OK";
  }

  /** Returns the newest entry of the heaviest type whose newest entry is not OK; `undefined` when all is well. */
  problem(): StatusEntry | undefined {
    for (const type of STATUS_TYPES) {
      const entry = this.#current.get(type);
      if (entry !== undefined && entry.code !== "OK") return entry;
    }
    return undefined;
  }

  #remember(entry: StatusEntry): void {
    this.#current.set(entry.type, entry);
    this.#entries.push(entry);
    while (this.#entries.length > RING_SIZE) this.#entries.splice(this.#oldestToDrop(), 1);
  }

  /** Finds the entry to drop, and skips one that is current and not OK. */
  #oldestToDrop(): number {
    const at = this.#entries.findIndex((entry) => entry.code === "OK" || this.#current.get(entry.type) !== entry);
    return Math.max(at, 0);
  }

  /** Writes what the ring holds, the oldest left out until it fills no more than half of the file. */
  #rewrite(): void {
    const lines = this.#entries.map(lineOf);
    let bytes = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0);
    while (bytes > FILE_LIMIT_BYTES / 2 && lines.length > 1) bytes -= Buffer.byteLength(lines.shift() ?? "");
    writeWhole(this.#path, lines.join(""), FILE_MODE, false);
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
