/** In which order a sample is drawn. */

/** All of them, in an order that the seed alone decides. */
export function shuffled<T>(all: readonly T[], seed: number): readonly T[] {
  const rest = [...all];
  // A linear congruential generator (Knuth, MMIX): the same sample on every machine.
  let state = BigInt(seed);
  for (let left = rest.length; left > 1; left--) {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    const chosen = Number((state >> 33n) % BigInt(left));
    const last = left - 1;
    [rest[chosen], rest[last]] = [rest[last] as T, rest[chosen] as T];
  }
  return rest;
}
