/**
 * Keeps what happened to attachments beyond their lives: who had which address from when to when, and each operation with its steps and its
 * error. Two files of at most 2 MiB in the run directory, JSON lines, the older one replaced. The agent writes it, and `tortiectl repair`
 * where no agent runs. Whoever reads it takes nothing for granted: lines may be cut, and files may be somebody else's.
 */
import { appendFileSync, closeSync, constants, fstatSync, mkdirSync, openSync, readSync, renameSync } from "node:fs";
import { join } from "node:path";
import { isText, listOf, may, must, oneOf, parseObject } from "../lib/json/decode.ts";
import { number, readShape, type Shaped, shapes, text } from "../lib/json/shape.ts";
import { excerpt } from "../lib/log/format.ts";
import { systemErrorCode } from "../lib/system/errno.ts";

/**
 * `add`, `del`, `check`: a runtime's call, or the agent's in its place. `assigned`, `released`: what the agent took over or gave up without
 * such a call. `repair`: asked for by an administrator. `mended`, `noted`: from the log of an endpoint that is there.
 */
export const HISTORY_EVENTS = ["add", "del", "check", "assigned", "released", "repair", "mended", "noted"] as const;

const ENTRY = {
  /** RFC 3339: when it began. */
  time: text,
  event: must(oneOf(...HISTORY_EVENTS)),
  outcome: must(oneOf("ok", "warning", "failed")),
  network: may(text),
  containerId: may(text),
  ifname: may(text),
  /** `<namespace>/<pod>`. */
  pod: may(text),
  /** Canonical, without prefix length. */
  addresses: must(listOf(isText)),
  /** RFC 3339: since when the attachment had its addresses, where they are given up. */
  since: may(text),
  milliseconds: may(number),
  steps: shapes({ name: text, milliseconds: number }),
  message: may(text),
  word: may(text),
  next: may(text),
};
export type HistoryEntry = Shaped<typeof ENTRY>;
export type HistoryStep = HistoryEntry["steps"][number];

const FILE = "history.jsonl";
const OLDER = "history.1.jsonl";
const FILE_MODE = 0o600;
const DIRECTORY_MODE = 0o700;
const FILE_LIMIT_BYTES = 2 << 20;
/** The longest text of an entry; a line with all of them stays below `LINE_LIMIT`. */
const TEXT_LIMIT = 2_000;
const LINE_LIMIT = 32_768;

/**
 * Appends entries, each before its operation is answered: whoever kills the process takes none away. That costs an ADD some 15 µs of
 * processor time and 500 bytes.
 */
export class HistoryWriter {
  readonly #directory: string;
  readonly #limit: number;

  /** @param limitBytes of one file, of which there are two */
  constructor(directory: string, limitBytes = FILE_LIMIT_BYTES) {
    this.#directory = directory;
    this.#limit = limitBytes;
  }

  /** Goes on where it cannot be written: no pod depends on its history. @returns whether it is in the file */
  note(...entries: readonly HistoryEntry[]): boolean {
    if (entries.length === 0) return true;
    try {
      this.#append(entries.map(lineOf).join(""));
      return true;
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      return false;
    }
  }

  #append(lines: string): void {
    mkdirSync(this.#directory, { recursive: true, mode: DIRECTORY_MODE });
    const path = join(this.#directory, FILE);
    const file = tailOf(path, 1);
    if (file.size + lines.length > this.#limit && file.size > 0) renameSync(path, join(this.#directory, OLDER));
    // A killed process has left half a line: what follows must not be appended to it.
    const isCut = file.size > 0 && file.text !== "\n";
    appendFileSync(path, isCut ? `\n${lines}` : lines, { mode: FILE_MODE });
  }
}

function lineOf(entry: HistoryEntry): string {
  const { message, pod, next } = entry;
  const cut = { ...entry, message: cutText(message), pod: cutText(pod), next: cutText(next), addresses: entry.addresses.slice(0, 64) };
  return `${JSON.stringify(cut)}\n`;
}

function cutText(value: string | undefined): string | undefined {
  return value === undefined ? undefined : excerpt(value, TEXT_LIMIT);
}

/** Narrows what is read; all that is given must hold. */
export interface HistoryQuery {
  readonly address?: string | undefined;
  readonly pod?: string | undefined;
  /** A container id, or how it begins. */
  readonly container?: string | undefined;
  readonly limit?: number | undefined;
}

export const MOST_HISTORY = 1_000;

/** Reads entries, newest first. What cannot be read as one is left out. Never throws: without files there is no history. */
export function readHistory(directory: string, query: HistoryQuery = {}): readonly HistoryEntry[] {
  const limit = Math.min(query.limit ?? MOST_HISTORY, MOST_HISTORY);
  const found: HistoryEntry[] = [];
  for (const name of [FILE, OLDER]) {
    const lines = tailOf(join(directory, name), FILE_LIMIT_BYTES).text.split("\n");
    for (let at = lines.length - 1; at >= 0 && found.length < limit; at--) {
      const entry = entryOf(lines[at] ?? "", query);
      if (entry !== undefined) found.push(entry);
    }
  }
  return found;
}

/** Looks for the names in the line before it reads it: most lines are about others. */
function entryOf(line: string, query: HistoryQuery): HistoryEntry | undefined {
  const { address, pod, container } = query;
  if (line === "" || line.length > LINE_LIMIT) return undefined;
  if ([address, pod, container].some((name) => name !== undefined && !line.includes(name))) return undefined;
  const entry = parseEntry(line);
  if (entry === undefined) return undefined;
  if (address !== undefined && !entry.addresses.includes(address)) return undefined;
  if (pod !== undefined && entry.pod !== pod) return undefined;
  return container === undefined || entry.containerId?.startsWith(container) === true ? entry : undefined;
}

function parseEntry(line: string): HistoryEntry | undefined {
  try {
    const entry = readShape(ENTRY, parseObject(line));
    return Number.isNaN(Date.parse(entry.time)) ? undefined : entry;
  } catch {
    return undefined;
  }
}

interface Tail {
  readonly text: string;
  /** Bytes of the whole file; 0 where it is no file. */
  readonly size: number;
}

/** Reads the end of a plain file, and of nothing else: no link is followed, and no pipe is waited for. */
function tailOf(path: string, most: number): Tail {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return { text: "", size: 0 };
  }
  try {
    const status = fstatSync(fd);
    if (!status.isFile()) return { text: "", size: 0 };
    const bytes = Buffer.alloc(Math.min(most, status.size));
    const length = readSync(fd, bytes, 0, bytes.length, status.size - bytes.length);
    return { text: bytes.toString("utf8", 0, length), size: status.size };
  } catch {
    return { text: "", size: 0 };
  } finally {
    closeSync(fd);
  }
}

/** Says who had an address, from when to when. */
export interface Assignment extends Pick<HistoryEntry, "pod" | "network" | "containerId" | "ifname"> {
  readonly address: string;
  /** RFC 3339; absent: the beginning is not in the history any more. */
  readonly from?: string;
  /** RFC 3339; absent: it has not been given up, as far as is known. */
  readonly until?: string;
}

/** Makes intervals of entries, newest first as they came. @param entries newest first */
export function assignmentsOf(entries: readonly HistoryEntry[]): readonly Assignment[] {
  const open = new Map<string, Assignment>();
  const made: Assignment[] = [];
  for (const entry of [...entries].reverse()) {
    if (entry.outcome === "failed") continue;
    const { network, containerId, ifname, pod } = entry;
    for (const address of entry.addresses) {
      const key = `${address} ${containerId} ${ifname}`;
      const known = open.get(key);
      if (entry.event === "add" || entry.event === "assigned") {
        if (known === undefined) open.set(key, { address, from: entry.time, pod, network, containerId, ifname });
      } else if (entry.event === "del" || entry.event === "released") {
        open.delete(key);
        made.push({ address, from: known?.from ?? entry.since, until: entry.time, pod: known?.pod ?? pod, network, containerId, ifname });
      }
    }
  }
  const last = ({ from, until }: Assignment) => from ?? until ?? "";
  return [...made, ...open.values()].sort((one, other) => (last(one) < last(other) ? 1 : -1));
}

/** Tells whether somebody had the address at that moment. */
export function wasAssigned({ from, until }: Assignment, atMs: number): boolean {
  return (from === undefined || Date.parse(from) <= atMs) && (until === undefined || atMs <= Date.parse(until));
}
