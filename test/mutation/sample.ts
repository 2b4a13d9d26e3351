/**
 * Plays a sample of the mutants that rules make (rules.ts) of a folder's files:
 * `npm run test:mutation -- --sample N --seed S FOLDER …`. Each is played in a scratch copy of the tree, first against the unit tests of
 * the folder, then, where they did not notice, against its system and fault tests. One that the compiler refuses does not count, and the
 * next of the same seed takes its place.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { applied, type Mutation, mutationsOf } from "./rules.ts";
import { shuffled } from "./shuffled.ts";
import { type TestRun, Tree } from "./tree.ts";

const ROOT = resolve(import.meta.dir, "../..");

interface Candidate {
  readonly file: string;
  readonly source: string;
  readonly mutation: Mutation;
}

interface Verdict {
  readonly outcome: "killed" | "survived";
  /** The tests, or the run, that noticed. */
  readonly by: string;
}

/** Suites in the order of what they cost. Those that a folder has no tests in are left out. */
function suitesOf(folder: string, isQuick: boolean): readonly string[] {
  const suites = isQuick ? ["unit"] : ["unit", "system", "fault"];
  return suites.filter((suite) => isFolder(join(ROOT, "test", suite, folder))).map((suite) => `${suite} ${folder}/`);
}

function isFolder(path: string): boolean {
  try {
    return readdirSync(path).length > 0;
  } catch {
    return false;
  }
}

function candidatesOf(folder: string): readonly Candidate[] {
  const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" });
  return files
    .filter((name) => name.endsWith(".ts"))
    .sort()
    .flatMap((name) => {
      const file = join(folder, name);
      const source = readFileSync(join(ROOT, file), "utf8");
      return mutationsOf(source).map((mutation) => ({ file, source, mutation }));
    });
}

function judge(tree: Tree, suites: readonly string[], baseline: ReadonlyMap<string, TestRun>): Verdict {
  for (const suite of suites) {
    const { failed, isTooLate, isWhole } = tree.test(suite);
    const known = baseline.get(suite)?.passed;
    const [by] = [...failed.keys()].filter((name) => known?.has(name) === true);
    if (by !== undefined) return { outcome: "killed", by: `${suite}: ${by}` };
    if (isTooLate) return { outcome: "killed", by: `${suite}: by its time limit` };
    // A program that the compiler accepts and that cannot be loaded is noticed by everybody.
    if (!isWhole) return { outcome: "killed", by: `${suite}: a file cannot be loaded` };
  }
  return { outcome: "survived", by: "" };
}

function describe({ file, source, mutation }: Candidate): string {
  const bytes = Buffer.from(source, "utf8");
  const line = bytes.subarray(0, mutation.start).toString("utf8").split("\n").length;
  const short = (text: string) => (text.length > 90 ? `${text.slice(0, 90)}…` : text).replace(/\s+/g, " ");
  const before = bytes.subarray(mutation.start, mutation.end).toString("utf8");
  return `${file}:${line} (${mutation.rule}) ${short(before)} => ${short(mutation.replacement)}`;
}

/** @returns how many of those that count were noticed */
function playFolder(
  tree: Tree,
  folder: string,
  { wanted, seed, isQuick }: Settings,
): { readonly killed: number; readonly counted: number } {
  const suites = suitesOf(folder, isQuick);
  const baseline = new Map(suites.map((suite) => [suite, tree.test(suite)]));
  for (const [suite, { passed }] of baseline) if (passed.size === 0) throw new Error(`${suite}: no test passes without any mutant`);
  let [killed, counted] = [0, 0];
  for (const candidate of shuffled(candidatesOf(folder), seed)) {
    if (counted === wanted) break;
    const verdict = tree.withText(candidate.file, applied(candidate.source, candidate.mutation), () =>
      tree.compiles() ? judge(tree, suites, baseline) : undefined,
    );
    if (verdict === undefined) continue;
    counted++;
    if (verdict.outcome === "killed") killed++;
    console.log(`${verdict.outcome.padEnd(8)} ${describe(candidate)}${verdict.by === "" ? "" : `\n         by: ${verdict.by}`}`);
  }
  console.log(`${folder}: ${counted} played, ${killed} noticed: ${Math.floor((killed / Math.max(counted, 1)) * 100)} %, seed ${seed}`);
  return { killed, counted };
}

interface Settings {
  readonly wanted: number;
  readonly seed: number;
  /** Unit tests alone. */
  readonly isQuick: boolean;
}

/** @param argv of `--sample N --seed S [--quick] FOLDER …` */
export function playSamples(argv: readonly string[]): void {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: { sample: { type: "string" }, seed: { type: "string", default: "1" }, quick: { type: "boolean", default: false } },
  });
  const settings = { wanted: Number(values.sample), seed: Number(values.seed), isQuick: values.quick };
  if (!(settings.wanted > 0) || !Number.isSafeInteger(settings.seed) || positionals.length === 0) {
    throw new Error("usage: npm run test:mutation -- --sample N --seed S [--quick] FOLDER …");
  }
  using tree = new Tree(ROOT);
  for (const folder of positionals) playFolder(tree, folder.replace(/\/+$/, ""), settings);
}
