/** JSON with integers of any size: those beyond 2^53 are `bigint` in tests (block sequence numbers are near 1.8e18, I§2.4). */

const MARK = "@integer:";

export function parseLossless(text: string): unknown {
  return JSON.parse(text, (_key: string, value: unknown, context?: { readonly source?: string }) => {
    const source = context?.source;
    const isInexact = typeof value === "number" && !Number.isSafeInteger(value) && source !== undefined && /^-?\d+$/.test(source);
    return isInexact ? BigInt(source) : value;
  });
}

export function printLossless(value: unknown): string {
  const text = JSON.stringify(value, (_key, member: unknown) => (typeof member === "bigint" ? `${MARK}${member}` : member));
  return text.replace(new RegExp(`"${MARK}(-?\\d+)"`, "g"), "$1");
}

/** What is at the end of a way of keys; `undefined` when it breaks off. */
export function memberAt(value: unknown, ...keys: readonly string[]): unknown {
  let at = value;
  for (const key of keys) {
    if (typeof at !== "object" || at === null) return undefined;
    at = Object.getOwnPropertyDescriptor(at, key)?.value;
  }
  return at;
}
