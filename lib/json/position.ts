/** Finds where the member that a path leads to stands in a JSON text. */
import { scanString, skipSpace } from "./parse.ts";
import { type Place, placeOf } from "./syntax-error.ts";

/** A key of an object, or the index of an element. */
export type Step = string | number;

/**
 * Finds the place of the last step: of a member its key, of an element its value. A key given several times counts where it stands first.
 *
 * @param text one that `parseJson` takes
 * @returns `undefined` when the path leads nowhere
 */
export function positionOf(text: string, path: readonly Step[]): Place | undefined {
  let value = skipSpace(text, 0);
  let place = value;
  for (const step of path) {
    const found = typeof step === "string" ? memberAt(text, value, step) : elementAt(text, value, step);
    if (found === undefined) return undefined;
    ({ place, value } = found);
  }
  return placeOf(text, place);
}

/** Offsets of what is named, and of the value to go on in. */
interface Found {
  readonly place: number;
  readonly value: number;
}

function memberAt(text: string, object: number, wanted: string): Found | undefined {
  if (text[object] !== "{") return undefined;
  let at = skipSpace(text, object + 1);
  while (text[at] === '"') {
    const key = scanString(text, at);
    // Behind the colon.
    const value = skipSpace(text, skipSpace(text, key.end) + 1);
    if (key.value === wanted) return { place: at, value };
    at = nextAfter(text, value);
  }
  return undefined;
}

function elementAt(text: string, array: number, wanted: number): Found | undefined {
  if (text[array] !== "[") return undefined;
  let at = skipSpace(text, array + 1);
  for (let index = 0; at < text.length && text[at] !== "]"; index++) {
    if (index === wanted) return { place: at, value: at };
    at = nextAfter(text, at);
  }
  return undefined;
}

/** Finds where the neighbour of the value at `start` begins, or the bracket that closes their container stands. */
function nextAfter(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const character = text[at];
    if (character === '"') at = scanString(text, at).end - 1;
    else if (character === "{" || character === "[") depth++;
    else if (character === "," && depth === 0) return skipSpace(text, at + 1);
    else if (character === "}" || character === "]") {
      if (depth === 0) return at;
      depth--;
    }
  }
  return text.length;
}
