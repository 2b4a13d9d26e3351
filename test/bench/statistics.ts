/** Order statistics of a series. */

export interface Summary {
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

export function summarise(values: readonly number[]): Summary {
  const sorted = [...values].sort((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), max: sorted.at(-1) ?? Number.NaN };
}

export function median(values: readonly number[]): number {
  return summarise(values).p50;
}

/** What one takes of the other, by the differences of calls that were made in turn: a machine that slows down meanwhile changes none of them. */
export function pairedRatio(ours: readonly number[], others: readonly number[]): number {
  return 1 + median(others.map((other, index) => (ours[index] ?? Number.NaN) - other)) / median(others);
}

/** Nearest rank on a sorted series. */
function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

export function row(cells: readonly (string | number)[], widths: readonly number[]): string {
  return cells
    .map((cell, i) => {
      const text = typeof cell === "number" ? cell.toFixed(cell >= 100 ? 0 : 2) : cell;
      return i === 0 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0);
    })
    .join("  ");
}
