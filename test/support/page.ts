/** The shell blocks of a page of docs/, which tests run as they stand. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { words } from "./words.ts";

export interface ShellBlock {
  /** As it is written, `## Upgrade`. */
  readonly heading: string;
  readonly text: string;
}

/** @param page below docs/ */
export function shellBlocksOf(page: string): readonly ShellBlock[] {
  const blocks: ShellBlock[] = [];
  let heading = "";
  for (const [whole, title, text] of pageText(page).matchAll(/^(#+ [^\n]*)$|^```sh\n(.*?)^```$/gms)) {
    if (text !== undefined) blocks.push({ heading, text });
    else heading = title ?? whole;
  }
  return blocks;
}

/**
 * The commands below one heading.
 *
 * @param page below docs/
 * @returns the shell blocks up to the next heading, one string a block
 */
export function commandsOf(page: string, heading: string): readonly string[] {
  const blocks = shellBlocksOf(page).filter((block) => block.heading === heading);
  if (blocks.length === 0) throw new Error(`docs/${page} has no shell block below "${heading}"`);
  return blocks.map(({ text }) => text);
}

function pageText(page: string): string {
  return readFileSync(join(resolve("docs"), page), "utf8");
}

const PROGRAMS = words`
  tortiectl tortie tortie-ipam tortie-node tortie-controller calico calicoctl kubectl ctr crictl docker podman
  ip bridge nft systemctl journalctl bash sh npm echo rm cp mv install curl jq sqlite3
`;

/** Commands inside of sentences, each once: a program that is known here, and arguments. */
export function inlineCommandsOf(page: string): readonly string[] {
  const prose = pageText(page).replace(/^```.*?^```$/gms, "");
  const spans = [...prose.matchAll(/`([^`]+)`/g)].map(([, span = ""]) => span);
  return [...new Set(spans.filter((span) => PROGRAMS.includes(span.split(/\s/, 1)[0]?.split("/").at(-1) ?? "") && /\s/.test(span)))];
}
