/** "Did you mean": the known word that is nearest to an unknown one. */

/** @returns `undefined` when none is near: more than a third of the letters would have to change */
export function suggestionFor(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    const distance = distanceOf(folded(word), folded(candidate));
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/** Letter case and the marks between words make no other word. */
function folded(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, "");
}

/** Letters to insert, remove, replace or swap with their neighbour (optimal string alignment). */
function distanceOf(from: string, to: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1];
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (isSame ? 0 : 1));
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      if (isSwapped) cost = Math.min(cost, (beforeLast[j - 2] ?? 0) + 1);
      row.push(cost);
    }
    [beforeLast, last] = [last, row];
  }
  return last[to.length] ?? 0;
}
