/** The shell blocks of a page of docs/, which tests run as they stand. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/**
 * The commands below one heading, without their comments.
 *
 * @param page below docs/
 * @param heading as it is written, `## Upgrade`
 * @returns the shell blocks up to the next heading, one string a block
 */
export function commandsOf(page: string, heading: string): readonly string[] {
  const text = readFileSync(join(resolve("docs"), page), "utf8");
  const begin = text.indexOf(`\n${heading}\n`);
  if (begin < 0) throw new Error(`docs/${page} has no "${heading}"`);
  const [section = ""] = text.slice(begin + heading.length + 2).split(/\n#+ /, 1);
  return [...section.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block = ""]) => block);
}
