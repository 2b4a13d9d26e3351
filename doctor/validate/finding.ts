/** Defines what `tortiectl validate` says about a document, the codes and one finding, and finds the word that was probably meant. */
import { type ErrorWord, KeyError, messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Step } from "../../lib/json/position.ts";
import type { Place } from "../../lib/json/syntax-error.ts";

/** `error`: the plugins would refuse it, or not do it; `warning`: they would ignore it. */
type Severity = "error" | "warning";

/** Lists codes beside the words of docs/reference/errors.md; docs/reference/tortiectl.md lists them, and a test holds the two together. */
export const FINDING_CODES = {
  "document-unreadable": "the file cannot be read, or is neither JSON nor YAML",
  "document-unknown": "nothing that Tortie reads: it was not judged",
  "key-unknown": "no plugin of ours knows the key, so that it has no effect",
  "value-ignored": "the value has no effect, or another one than it seems",
  "plugin-missing": "the plugin's executable is not in --cni-bin-dir",
  "plugin-version": "the plugin does not speak the cniVersion of the list, or does not say",
} as const;

type FindingCode = keyof typeof FINDING_CODES | ErrorWord;

/** Describes a finding about a document, wherever that stands. */
export interface Judgement {
  readonly severity: Severity;
  readonly code: FindingCode;
  /** Leads from the document's root; empty: the document itself. */
  readonly path: readonly Step[];
  readonly message: string;
  /** The known key that was probably meant. */
  readonly suggestion?: string | undefined;
}

export interface Finding extends Omit<Judgement, "path"> {
  readonly file: string;
  /** Counted from 1, for files that hold several. */
  readonly document?: number;
  /** Counts the line of the key, of the element of a list, or of the character that cannot be read. */
  readonly line?: number;
  readonly column?: number;
  readonly path: string;
}

/**
 * Returns what `check` throws, as a judgement.
 * @param root where the value that is checked stands; the path of a `KeyError` begins there
 * @param path for errors that name no key, below `root`
 */
export function judged(check: () => void, root: readonly Step[], value: unknown, path: readonly Step[] = []): readonly Judgement[] {
  try {
    check();
    return [];
  } catch (error) {
    const inside = error instanceof KeyError ? stepsOf(value, error.path) : path;
    const code = error instanceof TortieError ? error.word : "datastore-object-invalid";
    return [{ severity: "error", code, path: [...root, ...inside], message: messageOf(error) }];
  }
}

export function warning(code: FindingCode, path: readonly Step[], message: string, suggestion?: string): Judgement {
  return { severity: "warning", code, path, message, suggestion };
}

/** Writes one line for people: "file:3:5: error key-unknown plugins[0].mtuu: …". */
export function lineOf({ file, document, line, column, severity, code, path, message, suggestion }: Finding): string {
  const place = [file, ...(line === undefined ? [] : [line]), ...(column === undefined ? [] : [column])].join(":");
  const where = [...(document === undefined ? [] : [`document ${document}`]), ...(path === "" ? [] : [path])].join(", ");
  const hint = suggestion === undefined ? "" : ` (did you mean ${suggestion}?)`;
  return `${place}: ${severity} ${code}${where === "" ? "" : ` ${where}`}: ${message}${hint}`;
}

/** Writes `plugins[0].ipam.type`; a key with other characters stands in brackets, `annotations["a.b/c"]`. */
export function formatPath(path: readonly Step[]): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (!/^[\w-]+$/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text;
}

/**
 * Returns the steps of a path as errors of lib/config name it, "ipam.pools[0].cidr". A key may hold dots itself, so that the value decides
 * where one ends; of a part that is not in the value nothing is said.
 */
function stepsOf(value: unknown, path: string): readonly Step[] {
  const steps: Step[] = [];
  let inside = value;
  let rest = path;
  while (rest !== "") {
    const index = /^\[(\d+)\]\.?/.exec(rest);
    if (index !== null && Array.isArray(inside)) {
      const at = Number(index[1]);
      steps.push(at);
      inside = inside[at];
      rest = rest.slice(index[0].length);
      continue;
    }
    if (typeof inside !== "object" || inside === null) break;
    const entry = Object.entries(inside).find(([key]) => rest === key || rest.startsWith(`${key}.`) || rest.startsWith(`${key}[`));
    if (entry === undefined) break;
    steps.push(entry[0]);
    inside = entry[1];
    rest = rest.slice(entry[0].length).replace(/^\./, "");
  }
  return steps;
}

/** Has what is judged: one of the documents of a file. */
export interface Document {
  /** Plain JavaScript values, as JSON.parse gives them. */
  readonly value: unknown;
  /** JSON text of the value; that of the file itself where the file is JSON. */
  readonly json: string;
  /** Counted from 1; `undefined` where it is the only one. */
  readonly number: number | undefined;
  /** Says where a path of the value stands. */
  placeOf(path: readonly Step[]): Partial<Place>;
}

/** Says why a text holds no document. */
export interface Unreadable extends Partial<Place> {
  readonly number: number | undefined;
  readonly problem: string;
}

/** @returns `undefined` when none is near: more than a third of the letters would have to change */
export function suggestionFor(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    const distance = distanceOf(folded(word), folded(candidate));
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/** Folds letter case and the marks between words, which do not make another word. */
function folded(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, "");
}

/** Letters to insert, remove, replace or swap with their neighbour (optimal string alignment). */
function distanceOf(from: string, to: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1];
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (isSame ? 0 : 1));
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      if (isSwapped) cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1);
      row.push(cost);
    }
    [beforeLast, last] = [last, row];
  }
  return last[to.length] ?? 0;
}
