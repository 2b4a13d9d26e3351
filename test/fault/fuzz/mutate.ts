/** Inputs that are almost right: a kept one with a few changes, decided by a seed. */

export type Random = () => number;

/** Pieces that parsers treat in a way of their own. */
const PIECES = [
  ..."{}[]()\"',:;=|/\\.%&!<>*+-_#@ \t\r\n\0\u007f\u0085\u009b\u2028\ufeff0179aAfFzZ",
  "\ud800",
  "\ud83d\ude00",
  "é",
  "null",
  "true",
  "1e400",
  "-0",
  "18446744073709551616",
  "1.7976931348623157e309",
  "\\u0000",
  "\\ud800",
  "__proto__",
  "constructor",
  "::",
  "::ffff:1.2.3.4",
  "/129",
  "fe80::1%eth0",
  "010.0.0.1",
  "has(",
  "in {",
  "all()",
  "&anchor",
  "*anchor",
  "<<:",
  "!!js/function",
  "%YAML",
];

/** Values that a field of any type may meet. */
const VALUES: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e308,
  Number.MAX_SAFE_INTEGER,
  "",
  "0",
  "a",
  "\0",
  "..",
  "10.0.0.0/8",
  "fd00::/129",
  "x".repeat(300),
  [],
  [null],
  [[]],
  ["a", 1],
  {},
  { a: null },
  { __proto__: null, toString: 1 },
];

function pick<T>(random: Random, from: readonly [T, ...T[]] | readonly T[]): T {
  const found = from[Math.floor(random() * from.length)];
  if (found === undefined) throw new Error("nothing to pick from");
  return found;
}

/** One to four changes: a piece put in, a range removed, doubled, replaced, or taken from another input. */
export function mutateText(random: Random, text: string, others: readonly string[]): string {
  let result = text;
  for (let left = 1 + Math.floor(random() * 4); left > 0; left--) {
    const at = Math.floor(random() * (result.length + 1));
    const end = Math.min(result.length, at + Math.floor(random() * 8));
    const [before, range, after] = [result.slice(0, at), result.slice(at, end), result.slice(end)];
    const other = pick(random, others);
    const cut = Math.floor(random() * (other.length + 1));
    result = pick(random, [
      before + pick(random, PIECES) + range + after,
      before + after,
      before + range + range + after,
      before + pick(random, PIECES) + after,
      before + other.slice(cut),
      before + range.repeat(20) + after,
    ]);
  }
  return result;
}

/** One to three values anywhere inside are replaced, removed, or get a sibling. */
export function mutateJson(random: Random, value: unknown): unknown {
  const root = { value: structuredClone(value) };
  for (let left = 1 + Math.floor(random() * 3); left > 0; left--) {
    const places = placesOf(root);
    const { holder, key } = pick(random, places);
    const choice = random();
    if (choice < 0.6 || holder === root) holder[key] = structuredClone(pick(random, VALUES));
    else if (choice < 0.75) delete holder[key];
    else if (choice < 0.9) holder[`${key}x`] = holder[key];
    else holder[key] = [holder[key], holder[key]];
  }
  return root.value;
}

type Holder = Record<string, unknown>;

/** Every member of every object and list below. */
function placesOf(holder: Holder): { readonly holder: Holder; readonly key: string }[] {
  return Object.entries(holder).flatMap(([key, value]) => [
    { holder, key },
    ...(typeof value === "object" && value !== null ? placesOf(value as Holder) : []),
  ]);
}

/** Bits flipped, bytes replaced, ranges cut, lengths that lie. */
export function mutateBytes(random: Random, bytes: Uint8Array): Uint8Array {
  let result = Uint8Array.from(bytes);
  for (let left = 1 + Math.floor(random() * 4); left > 0; left--) {
    const at = Math.floor(random() * Math.max(1, result.length));
    const choice = random();
    if (choice < 0.3) result[at] = (result[at] ?? 0) ^ (1 << Math.floor(random() * 8));
    else if (choice < 0.6) result[at] = pick(random, [0, 1, 3, 4, 0x7f, 0x80, 0xff]);
    else if (choice < 0.8) result = result.slice(0, at);
    else result = Uint8Array.from([...result, ...result.slice(at)]);
  }
  return result;
}
