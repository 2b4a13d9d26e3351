/** The mutants of a file by name, and the order in which a sample takes them. */
import { createHash } from "node:crypto";
import { applied, type Mutation, mutationsOf } from "./rules.ts";
import type { Variant } from "./tree.ts";

export interface Candidate extends Variant {
  /** What it changes, without the number of the line: the same for as long as the line is. */
  readonly id: string;
  readonly line: number;
}

/** All mutants of a file. @param source its text */
export function candidatesOf(file: string, source: string): readonly Candidate[] {
  const bytes = Buffer.from(source, "utf8");
  const seen = new Map<string, number>();
  return mutationsOf(source).map((mutation) => {
    const line = bytes.subarray(0, mutation.start).toString("utf8").split("\n").length;
    const id = `${file} (${mutation.rule}) ${change(bytes, mutation)} in: ${source.split("\n")[line - 1]?.trim()}`;
    const nth = (seen.get(id) ?? 0) + 1;
    seen.set(id, nth);
    return { id: nth === 1 ? id : `${id} #${nth}`, line, file, text: applied(source, mutation) };
  });
}

function change(bytes: Buffer, { start, end, replacement }: Mutation): string {
  const short = (text: string) => (text.length > 90 ? `${text.slice(0, 90)}…` : text).replace(/\s+/g, " ");
  return `${short(bytes.subarray(start, end).toString("utf8"))} => ${short(replacement)}`;
}

/** All of them in an order that the seed and each one's own words decide: a line that comes or goes leaves the others where they are. */
export function inOrderOf<T extends { readonly id: string }>(seed: string, all: readonly T[]): readonly T[] {
  const rank = ({ id }: T) => createHash("sha256").update(`${seed} ${id}`).digest("hex");
  return all
    .map((one) => ({ one, rank: rank(one) }))
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .map(({ one }) => one);
}
