/** Differentiated services code points: 0 to 63, or one of the names of RFC 2474, RFC 2597 and RFC 3246 that Calico knows (C§3.4). */

const NAMES = new Set([
  ...["DF", "EF"],
  ...[1, 2, 3, 4].flatMap((kind) => [1, 2, 3].map((drop) => `AF${kind}${drop}`)),
  ...[0, 1, 2, 3, 4, 5, 6].map((kind) => `CS${kind}`),
]);

const LARGEST = 63;

/** @returns a number, or a name in upper case; `undefined` when the text is neither */
export function parseDscp(text: string): number | string | undefined {
  if (/^\d+$/.test(text)) return Number(text) <= LARGEST ? Number(text) : undefined;
  const name = text.toUpperCase();
  return NAMES.has(name) ? name : undefined;
}
