/** Text of others, made safe for lines and terminals. */

/**
 * Control characters (C0, DEL, and C1, of which U+009B begins terminal sequences and U+0085 a line) and the two separators that some
 * programs take for line ends.
 */
const CONTROL = /[\p{Cc}\u2028\u2029]/gu;

/** Writes each as JSON would, "\u009b". */
export function escapeControls(text: string): string {
  return text.replace(CONTROL, escaped);
}

/** The same, but keeps the line ends and tabs of a message that has several lines. */
export function escapeControlsInLines(text: string): string {
  return text.replace(CONTROL, (character) => (character === "\n" || character === "\t" ? character : escaped(character)));
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
