/** Reads the kept list of mutants. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Mutant {
  readonly area: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** Arguments of scripts/jest, one run each: "unit main-plugin/gc". Killed by the first that fails. */
  readonly tests: readonly string[];
}

export function readMutants(): readonly Mutant[] {
  return JSON.parse(readFileSync(join(import.meta.dir, "mutants.json"), "utf8"));
}
