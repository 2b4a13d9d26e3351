/**
 * Plays the kept list of mutants (mutants.json): each changes one line of a copy of the tree, and the tests that it names must notice.
 *
 * Killed means: a test that passes without the mutant fails with it. A file that can no longer be loaded, or a build that breaks, shows
 * only that the mutant is no program: "broken". A pattern must be found exactly once in its file: one that is gone is "stale". Both are
 * failures like an area below the limit, as the list is only worth what it says about today's code. Where nothing but the time limit
 * noticed, the mutant is killed but counted apart: a test that waits for its limit tells nobody what is wrong.
 * Arguments narrow the list: an area, or a part of a file's path. `--sample` plays mutants made by rules instead (sample.ts).
 */
import { resolve } from "node:path";
import { type Mutant, readMutants } from "./mutants.ts";
import { playSamples } from "./sample.ts";
import { TEST_IS_TOO_LATE, type TestRun, Tree } from "./tree.ts";

interface Played {
  readonly mutant: Mutant;
  readonly outcome: Outcome;
  /** The first test that noticed. */
  readonly by: string;
}

type Outcome = "killed" | "timeout" | "survived" | "broken" | "stale";

/** Share of an area's mutants that its tests must notice. */
const LIMIT = 0.9;

const ROOT = resolve(import.meta.dir, "../..");

function play(tree: Tree, mutant: Mutant, baseline: ReadonlyMap<string, TestRun>): Played {
  const played = tree.withChange(mutant.file, mutant.find, mutant.replace, () => {
    let best: Played = { mutant, outcome: "survived", by: "" };
    for (const test of mutant.tests) {
      const { failed, isTooLate, isWhole } = tree.test(test);
      const by = [...failed].find(
        ([name, message]) => baseline.get(test)?.passed.has(name) === true && !message.includes(TEST_IS_TOO_LATE),
      );
      if (by !== undefined) return { mutant, outcome: "killed", by: by[0] } as const;
      if (isTooLate) best = { mutant, outcome: "timeout", by: test };
      else if (!isWhole && best.outcome === "survived") best = { mutant, outcome: "broken", by: test };
    }
    return best;
  });
  return played ?? { mutant, outcome: "stale", by: "" };
}

/** @returns what the tests say of the tree as it is; each must pass, as nothing can be told by one that fails anyway */
function playBaseline(tree: Tree, mutants: readonly Mutant[]): ReadonlyMap<string, TestRun> {
  const runs = new Map<string, TestRun>();
  for (const test of new Set(mutants.flatMap(({ tests }) => tests))) {
    const first = tree.test(test);
    // A second try, as a machine under load may fail a test that another process shares its time with.
    const found = isGood(first) ? first : tree.test(test);
    if (!isGood(found)) {
      throw new Error(`${test} fails without any mutant, nothing can be told: ${[...found.failed.keys()].join("; ")}`);
    }
    runs.set(test, found);
  }
  return runs;
}

function isGood({ passed, failed, isTooLate, isWhole }: TestRun): boolean {
  return isWhole && !isTooLate && failed.size === 0 && passed.size > 0;
}

function chosenMutants(): readonly Mutant[] {
  const wanted = process.argv.slice(2);
  return readMutants().filter(({ area, file }) => wanted.length === 0 || wanted.some((part) => area === part || file.includes(part)));
}

/** @returns whether every area is at the limit and every mutant a program */
function report(all: readonly Played[]): boolean {
  let isEnough = all.length > 0;
  for (const area of new Set(all.map(({ mutant }) => mutant.area))) {
    const ofArea = all.filter(({ mutant }) => mutant.area === area);
    const count = (outcome: Outcome) => ofArea.filter((one) => one.outcome === outcome).length;
    const share = (count("killed") + count("timeout")) / ofArea.length;
    console.log(
      `${area}: ${ofArea.length} played, ${count("killed")} killed, ${count("timeout")} by timeout, ${count("survived")} survived, ` +
        `${count("broken")} broken, ${count("stale")} stale: ${Math.floor(share * 100)} %`,
    );
    if (count("stale") + count("broken") > 0 || share < LIMIT) isEnough = false;
  }
  return isEnough;
}

function playKept(): void {
  using tree = new Tree(ROOT);
  const mutants = chosenMutants();
  const baseline = playBaseline(tree, mutants);
  const all = mutants.map((mutant) => {
    const played = play(tree, mutant, baseline);
    const { file, find, replace } = mutant;
    const by = played.by === "" ? "" : `\n         by: ${played.by.replace(/\s+/g, " ")}`;
    console.log(`${played.outcome.padEnd(8)} ${file}: ${find.trim()} => ${replace.trim()}${by}`);
    return played;
  });
  process.exitCode = report(all) ? 0 : 1;
}

if (process.argv.includes("--sample")) await playSamples(process.argv.slice(2));
else playKept();
