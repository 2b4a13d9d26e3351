/** Decides whether a selector selects, reading labels and loading the parser only when the answer depends on them. */

import { messageOf, TortieError } from "../errors/errors.ts";

/** Labels of a node or namespace; none where the object does not exist. */
export type Labels = Readonly<Record<string, string>>;

/** What pools without a wish have (I§2.7); an empty selector selects all as well. */
const SELECTS_ALL = /^\s*(all\(\s*\)\s*)?$/;

/**
 * @param place the object and field, for the message: `nodeSelector of pool "p4"`
 * @param readLabels called at most once, and not at all for a selector that selects everything
 * @throws TortieError `selector-syntax`
 */
export async function selects(selector: string, place: string, readLabels: () => Promise<Labels>): Promise<boolean> {
  if (selector === "all()" || selector === "" || SELECTS_ALL.test(selector)) return true;
  const { parseSelector } = await import("./parser.ts");
  let predicate: (labels: Labels) => boolean;
  try {
    predicate = parseSelector(selector);
  } catch (error) {
    throw new TortieError("selector-syntax", `${place}: ${messageOf(error)}`, { cause: error });
  }
  return predicate(await readLabels());
}
