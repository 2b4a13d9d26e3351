/** Wraps paragraphs of the pages that scripts write to the width of the pages' prose. */

const WIDTH = 118;

/**
 * Writes one item of a list in lines of at most 118 characters, unless a single word is longer.
 *
 * @param indent blanks before the item's mark
 */
export function listItem(text: string, indent = ""): string {
  const lines: string[] = [];
  let line = `${indent}-`;
  for (const word of text.split(" ")) {
    if (line.length + 1 + word.length > WIDTH && line.trim() !== "-") {
      lines.push(line);
      line = `${indent} `;
    }
    line += ` ${word}`;
  }
  return [...lines, line].join("\n");
}
