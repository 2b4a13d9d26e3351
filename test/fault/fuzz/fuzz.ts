/**
 * A loop over inputs that a seed decides. Input n of a seed is always the same, so that a failure can be played again:
 *
 *     TORTIE_FUZZ_SEED=7 TORTIE_FUZZ_COUNT=1000000 bash scripts/jest fault fuzz
 *
 * An input that failed once is kept in corpus/, one JSON text a line: it is tried as it is in every run, and its mutants after it.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { seededRandom } from "../../support/scheduler.ts";
import type { Random } from "./mutate.ts";

const SEED = Number(process.env.TORTIE_FUZZ_SEED ?? 1);
const COUNT_FACTOR = Number(process.env.TORTIE_FUZZ_COUNT ?? 0);

/** Kept inputs of one target. */
export function corpus<T>(name: string): readonly T[] {
  return readFileSync(join(__dirname, "corpus", `${name}.jsonl`), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as T);
}

export interface Target<T> {
  readonly inputs: readonly T[];
  readonly mutate: (random: Random, input: T, all: readonly T[]) => T;
  /** Errors of these classes are an answer; any other, a crash of the runtime included, is a defect. */
  readonly answers: readonly (new (
    ...args: never[]
  ) => Error)[];
  readonly run: (input: T) => unknown;
  /** Mutants of one run in CI. */
  readonly count: number;
}

/** @throws Error with the seed, the number and the text of the input that was not answered as it should be */
export function fuzz<T>({ inputs, mutate, answers, run, count }: Target<T>): { accepted: number; refused: number } {
  const result = { accepted: 0, refused: 0 };
  const total = inputs.length + (COUNT_FACTOR || count);
  for (let n = 0; n < total; n++) {
    const kept = inputs[n];
    const random = seededRandom(SEED * 1_000_003 + n);
    const parent = inputs[Math.floor(random() * inputs.length)];
    if (parent === undefined) throw new Error("the corpus is empty");
    const input = kept ?? mutate(random, parent, inputs);
    try {
      run(input);
      result.accepted++;
    } catch (error) {
      result.refused++;
      if (answers.some((answer) => error instanceof answer)) continue;
      const place = `seed ${SEED}, input ${n}: ${printable(input)}`;
      throw new Error(`${place}\n${error}`, { cause: error });
    }
  }
  return result;
}

/** As a line of the corpus. */
function printable(input: unknown): string {
  return JSON.stringify(input instanceof Uint8Array ? [...input] : input);
}
