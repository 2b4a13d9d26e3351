/** Where in a JSON text each value stands, for messages about a value that is JSON but wrong. */
import { scanNumber, scanString } from "./scan.ts";

export interface Position {
  /** Counted from 1. */
  readonly line: number;
  /** Counted from 1, in UTF-16 units. */
  readonly column: number;
}

/**
 * Path of each value, "plugins[0].ipam.type", to where its key begins, or the value itself in a list. Of a repeated key the last one counts.
 * @param text what `parseJson` has taken: it is not checked again
 */
export function positionsOf(text: string): ReadonlyMap<string, Position> {
  const found = new Map<string, Position>();
  const at = positionIn(text);
  /** @returns offset behind the value */
  const walk = (start: number, path: string): number => {
    const opening = text[start];
    if (opening === "{") {
      let next = skip(text, start + 1);
      while (text[next] !== "}") {
        const key = scanString(text, next);
        const inner = path === "" ? key.value : `${path}.${key.value}`;
        found.set(inner, at(next));
        const colon = skip(text, key.end);
        next = skip(text, walk(skip(text, colon + 1), inner));
        if (text[next] === ",") next = skip(text, next + 1);
      }
      return next + 1;
    }
    if (opening === "[") {
      let next = skip(text, start + 1);
      for (let index = 0; text[next] !== "]"; index++) {
        const inner = `${path}[${index}]`;
        found.set(inner, at(next));
        next = skip(text, walk(next, inner));
        if (text[next] === ",") next = skip(text, next + 1);
      }
      return next + 1;
    }
    if (opening === '"') return scanString(text, start).end;
    if (opening === "t" || opening === "n") return start + 4;
    if (opening === "f") return start + 5;
    return scanNumber(text, start).end;
  };
  walk(skip(text, 0), "");
  return found;
}

function skip(text: string, start: number): number {
  let next = start;
  while (" \n\r\t".includes(text[next] ?? "x")) next++;
  return next;
}

/** Offsets must be asked for in rising order. */
function positionIn(text: string): (offset: number) => Position {
  let line = 1;
  let lineStart = 0;
  return (offset) => {
    for (let end = text.indexOf("\n", lineStart); end !== -1 && end < offset; end = text.indexOf("\n", lineStart)) {
      line += 1;
      lineStart = end + 1;
    }
    return { line, column: offset - lineStart + 1 };
  };
}
