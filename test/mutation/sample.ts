/**
 * Plays a sample of the mutants that rules make (rules.ts) of a folder's files:
 * `npm run test:mutation -- --sample N --seed S FOLDER …`. Each is played in a scratch copy of the tree, first against the unit tests that
 * import its file, then, where they did not notice, against the system and fault tests of the folder. One that the compiler refuses does
 * not count, and neither does one of which nothing can be told; the next of the same seed takes its place.
 *
 * What was said stands in `.cache/mutation/` at once, so that a run that was cut goes on where it was; `--again` plays the survivors again.
 */
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Candidate, candidatesOf, inOrderOf } from "./candidates.ts";
import { testsNear } from "./near.ts";
import { Imports } from "./related.ts";
import { TEST_IS_TOO_LATE, type TestRun, Tree } from "./tree.ts";
import { WarmTests } from "./warm.ts";

const ROOT = resolve(import.meta.dir, "../..");
/**
 * Which of the unit test files, the nearest first, are played against a mutant together. The nearest is alone: where others hang it has
 * said what is wrong. As many as the largest folder has: those beyond say little of the file.
 */
const BATCHES = [
  [0, 1],
  [1, 3],
  [3, 9],
  [9, 16],
  [16, 24],
] as const;
const UNIT_LIMIT_SECONDS = 120;
const NEAR_LIMIT_SECONDS = 120;
/** What a mutant comes to of which nothing can be told: nothing but a time limit noticed it, and without it the same tests are too late too. */
const UNDECIDED = "undecided";

interface Verdict {
  readonly id: string;
  readonly line: number;
  readonly outcome: "killed" | "survived" | "refused";
  /** The test that noticed. */
  readonly by: string;
  readonly depth: Depth;
}

/** Which tests are played against what unit tests do not notice: none, the system tests that are about its file, or all of its folder. */
type Depth = "unit" | "near" | "folder";
const DEPTHS: readonly Depth[] = ["unit", "near", "folder"];

interface Settings {
  readonly wanted: number;
  readonly seed: string;
  readonly depth: Depth;
  readonly isAgain: boolean;
}

/** What was said of a folder's mutants, in a file that is added to. */
class Verdicts {
  readonly #path: string;
  readonly #known = new Map<string, Verdict>();

  constructor(folder: string, seed: string) {
    this.#path = join(ROOT, ".cache/mutation", `${folder.replaceAll("/", "-")}.${seed}.jsonl`);
    mkdirSync(dirname(this.#path), { recursive: true });
    writeFileSync(this.#path, "", { flag: "a" });
    for (const line of readFileSync(this.#path, "utf8")
      .split("\n")
      .filter((text) => text !== "")) {
      const verdict: Verdict = JSON.parse(line);
      this.#known.set(verdict.id, verdict);
    }
  }

  of({ id }: Candidate): Verdict | undefined {
    return this.#known.get(id);
  }

  add(verdict: Verdict): void {
    this.#known.set(verdict.id, verdict);
    appendFileSync(this.#path, `${JSON.stringify(verdict)}\n`);
  }
}

class Player implements Disposable {
  readonly #tree: Tree;
  readonly #imports: Imports;
  readonly #unit: WarmTests;
  /** What the tests of a file say without any mutant. */
  readonly #baseline = new Map<string, TestRun>();

  constructor(tree: Tree) {
    this.#tree = tree;
    this.#imports = new Imports(tree.directory, tree.files);
    this.#unit = new WarmTests(tree.directory);
  }

  /**
   * @param isPlayed whether the unit tests have said already that they notice nothing
   * @returns the test that noticed, `UNDECIDED`, or undefined where none did
   */
  async play(folder: string, candidate: Candidate, depth: Depth, isPlayed: boolean): Promise<string | undefined> {
    const unit = isPlayed ? [] : this.#imports.testsOf(candidate.file, "unit");
    for (const files of BATCHES.map(([from, end]) => unit.slice(from, end)).filter(({ length }) => length > 0)) {
      const by = await this.#judge(candidate, "unit", () => this.#unit.run(files, UNIT_LIMIT_SECONDS));
      if (by !== undefined) return by;
    }
    if (depth === "unit") return undefined;
    const near = testsNear(candidate.file);
    if (near !== undefined) {
      const play = () => this.#tree.test(`system ${near.pattern}`, ["--bail"], near.runsSource, NEAR_LIMIT_SECONDS);
      const by = await this.#judge(candidate, "system", play);
      if (by !== undefined) return by;
    }
    for (const suite of depth === "near" ? [] : ["system", "fault"]) {
      if (!isFolder(join(ROOT, "test", suite, folder))) continue;
      const by = await this.#judge(candidate, suite, () => this.#tree.test(`${suite} ${folder}/`, ["--bail"]));
      if (by !== undefined) return by;
    }
    return undefined;
  }

  [Symbol.dispose](): void {
    this.#unit[Symbol.dispose]();
  }

  async #judge(candidate: Candidate, suite: string, tests: () => TestRun | Promise<TestRun>): Promise<string | undefined> {
    const { failed, failedFiles, isTooLate, isWhole } = await this.#whileChanged(candidate, tests);
    for (const [name, message] of failed) {
      if (message.includes(TEST_IS_TOO_LATE)) continue;
      for (const file of failedFiles) if (await this.#passes(suite, file, name)) return `${suite}: ${name}`;
    }
    // On a machine under load tests may be late by themselves.
    if (isTooLate) return (await tests()).isTooLate ? UNDECIDED : `${suite}: by its time limit`;
    // A program that the compiler accepts and that cannot be loaded is noticed by everybody.
    return isWhole ? undefined : `${suite}: a file cannot be loaded`;
  }

  async #whileChanged(candidate: Candidate, tests: () => TestRun | Promise<TestRun>): Promise<TestRun> {
    using _changed = this.#tree.changed(candidate);
    return await tests();
  }

  /** Whether a test passes without any mutant. */
  async #passes(suite: string, file: string, name: string): Promise<boolean> {
    const known = this.#baseline.get(file);
    const run =
      known ?? (suite === "unit" ? await this.#unit.run([file], UNIT_LIMIT_SECONDS) : this.#tree.test(`${suite} ${patternOf(file)}`));
    if (!run.isTooLate && run.isWhole) this.#baseline.set(file, run);
    return run.passed.has(name);
  }
}

/** A test's file as scripts/jest narrows a suite. */
function patternOf(file: string): string {
  return `${file.split("/").slice(2).join("/").replaceAll(".", "\\.")}$`;
}

function isFolder(path: string): boolean {
  try {
    return readdirSync(path).length > 0;
  } catch {
    return false;
  }
}

async function playFolder(tree: Tree, folder: string, { wanted, seed, depth, isAgain }: Settings): Promise<void> {
  const verdicts = new Verdicts(folder, seed);
  using player = new Player(tree);
  const files = tree.files.filter((file) => file.startsWith(`${folder}/`) && file.endsWith(".ts"));
  const all = inOrderOf(
    seed,
    files.flatMap((file) => candidatesOf(file, readFileSync(join(tree.directory, file), "utf8"))),
  );
  let [killed, counted, undecided] = [0, 0, 0];
  for (let from = 0; from < all.length && counted < wanted; from += wanted) {
    const chosen = all.slice(from, from + wanted);
    const unknown = chosen.filter((candidate) => verdicts.of(candidate) === undefined);
    const accepted = unknown.length === 0 ? new Set() : tree.accepted(unknown);
    for (const candidate of chosen) {
      const { id, line } = candidate;
      let verdict = verdicts.of(candidate);
      if (counted === wanted || verdict?.outcome === "refused") continue;
      const isDeepEnough = verdict !== undefined && DEPTHS.indexOf(verdict.depth) >= DEPTHS.indexOf(depth);
      const isDone = verdict?.outcome === "killed" || (verdict?.outcome === "survived" && !isAgain && isDeepEnough);
      if (verdict === undefined && !accepted.has(candidate)) verdict = { id, line, outcome: "refused", by: "", depth };
      else if (!isDone) {
        const by = await player.play(folder, candidate, depth, verdict !== undefined && !isAgain);
        if (by === UNDECIDED) {
          undecided++;
          console.log(`${UNDECIDED} :${line} ${id}`);
          continue;
        }
        verdict = { id, line, outcome: by === undefined ? "survived" : "killed", by: by ?? "", depth };
      }
      if (verdict === undefined) continue;
      if (!isDone) verdicts.add(verdict);
      if (verdict.outcome === "refused") continue;
      counted++;
      if (verdict.outcome === "killed") killed++;
      console.log(`${verdict.outcome.padEnd(8)} :${line} ${id}${verdict.by === "" ? "" : `\n         by: ${verdict.by}`}`);
    }
  }
  const share = Math.floor((killed / Math.max(counted, 1)) * 100);
  console.log(`${folder}: ${counted} played, ${killed} noticed: ${share} %, ${undecided} undecided, seed ${seed}`);
}

/** @param argv of `--sample N --seed S [--quick | --near] [--again] FOLDER …` */
export async function playSamples(argv: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      sample: { type: "string" },
      seed: { type: "string", default: "1" },
      quick: { type: "boolean", default: false },
      near: { type: "boolean", default: false },
      again: { type: "boolean", default: false },
    },
  });
  const depth = values.quick ? "unit" : values.near ? "near" : "folder";
  const settings = { wanted: Number(values.sample), seed: values.seed, depth, isAgain: values.again } as const;
  if (!(settings.wanted > 0) || !/^\w+$/.test(settings.seed) || positionals.length === 0) {
    throw new Error("usage: npm run test:mutation -- --sample N --seed S [--quick | --near] [--again] FOLDER …");
  }
  using tree = new Tree(ROOT);
  for (const folder of positionals) await playFolder(tree, folder.replace(/\/+$/, ""), settings);
}
