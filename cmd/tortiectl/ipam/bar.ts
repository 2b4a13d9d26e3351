/** Addresses as pictures: a bar of shares, and a map with one sign an address. Signs differ, so that plain text reads as well. */
import type { Colors } from "../terminal.ts";

export type Standing = "used" | "borrowed" | "cooling" | "reserved" | "free";

export const STANDINGS: readonly Standing[] = ["used", "borrowed", "cooling", "reserved", "free"];

const SIGNS: Readonly<Record<Standing, string>> = { used: "█", borrowed: "▓", cooling: "▒", reserved: "×", free: "·" };

export type Shares = Readonly<Record<Standing, bigint>>;

/**
 * Divides `width` signs in proportion to the shares. Every share above zero gets at least one sign, at the expense of the largest.
 * @param width at least one sign for each standing
 */
export function cells(shares: Shares, width: number): readonly Standing[] {
  const total = STANDINGS.reduce((sum, standing) => sum + shares[standing], 0n);
  if (total === 0n) return [];
  const widths = STANDINGS.map((standing) => {
    const share = shares[standing];
    return share === 0n ? 0 : Math.max(1, Math.round(Number((share * BigInt(width) * 1000n) / total) / 1000));
  });
  const excess = widths.reduce((sum, one) => sum + one, 0) - width;
  const largest = widths.indexOf(Math.max(...widths));
  return STANDINGS.flatMap((standing, index) => Array<Standing>((widths[index] ?? 0) - (index === largest ? excess : 0)).fill(standing));
}

/** The signs as one text, neighbours of a kind coloured together. */
export function paint(standings: readonly Standing[], colors: Colors): string {
  let text = "";
  for (let from = 0; from < standings.length; ) {
    const standing = standings[from] ?? "free";
    let to = from;
    while (standings[to] === standing) to++;
    text += coloured(standing, SIGNS[standing].repeat(to - from), colors);
    from = to;
  }
  return text;
}

/** "█ used  ▒ cooling …", of those that occur. */
export function legend(occurring: ReadonlySet<Standing>, colors: Colors): string {
  return STANDINGS.filter((standing) => occurring.has(standing))
    .map((standing) => `${coloured(standing, SIGNS[standing], colors)} ${standing}`)
    .join("  ");
}

function coloured(standing: Standing, text: string, colors: Colors): string {
  switch (standing) {
    case "used":
      return colors.green(text);
    case "borrowed":
      return colors.magenta(text);
    case "cooling":
      return colors.yellow(text);
    case "reserved":
      return colors.blue(text);
    case "free":
      return colors.dim(text);
  }
}
