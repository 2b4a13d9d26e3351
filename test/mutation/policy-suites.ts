/**
 * Plays mutants of the policy engine against each of the suites that judge it, and prints which suite notices which: the unit tests that
 * the list names, the brute-force judge on random clusters, Cyclonus' matcher on random clusters, and Cyclonus' cases with real packets.
 * Fails for a mutant that no suite notices. Needs what the policy suite needs, and builds the tree once for each mutant.
 *
 * bash scripts/bun test/mutation/policy-suites.ts [part of a mutant's file or text …]
 * Each mutant meets the cases of Cyclonus that are about what it changes (CASES), or a sample of 24. TORTIE_POLICY_CLUSTERS says how many
 * random clusters are judged (1000).
 */
import { resolve } from "node:path";
import { type Mutant, readMutants } from "./mutants.ts";
import { TEST_IS_TOO_LATE, type TestRun, Tree } from "./tree.ts";

const ORACLE = "unit policy/random";
const MATCHER = "policy matcher";
const PACKETS = "policy cyclonus -t IPv4";
const LIMIT_SECONDS = 1800;

/** Parts of a mutant's file or text, and of the descriptions of Cyclonus' cases that are about it. */
const CASES: readonly (readonly [string, string])[] = [
  ["blocks.ts", "ipblock with except"],
  ["namespaces", "ns by label"],
  ["selector.ts", "should"],
  ["groups.ts", "namespace"],
  ["engine.ts", "Create/"],
  ["addresses.ts", "updated"],
  ["PROTOCOLS", "named port"],
  ["egress: named", "deny all"],
];

process.env.TORTIE_POLICY_CASES = "24";
process.env.TORTIE_POLICY_CLUSTERS ??= "1000";

/** What descriptions of Cyclonus' cases contain that are about a mutant; empty: a sample of all. */
function casesOf({ file, find }: Mutant): string {
  return CASES.find(([part]) => `${file} ${find}`.includes(part))?.[1] ?? "";
}

function play(tree: Tree, test: string, mutant: Mutant): TestRun {
  process.env.TORTIE_POLICY_ONLY = casesOf(mutant);
  return tree.test(test, [], test !== PACKETS, LIMIT_SECONDS);
}

/** Tells whether a test that passes without the mutant fails with it, and not by being late. */
function notices(run: TestRun, baseline: TestRun): boolean {
  return [...run.failed].some(([name, message]) => baseline.passed.has(name) && !message.includes(TEST_IS_TOO_LATE));
}

function shown(text: string): string {
  return `\`${text.trim().replaceAll("|", "\\|")}\``;
}

const wanted = process.argv.slice(2);
const mutants = readMutants().filter(
  ({ area, file, find }: Mutant) => area === "policy" && (wanted.length === 0 || wanted.some((part) => `${file} ${find}`.includes(part))),
);
using tree = new Tree(resolve(import.meta.dir, "../.."));
const baselines = new Map<string, TestRun>();

/** What a suite says without a mutant. @throws Error where it fails: nothing can be told then */
function baselineOf(test: string, mutant: Mutant): TestRun {
  const key = test === PACKETS ? `${test} ${casesOf(mutant)}` : test;
  const known = baselines.get(key) ?? play(tree, test, mutant);
  if (known.failed.size > 0 || known.passed.size === 0)
    throw new Error(`${test} fails without any mutant: ${[...known.failed.values()].join("\n")}`);
  baselines.set(key, known);
  return known;
}

console.log("| File | Mutant | unit | oracle | matcher | packets |\n| --- | --- | --- | --- | --- | --- |");
let unnoticed = 0;
for (const mutant of mutants) {
  const { file, find, replace, tests } = mutant;
  const suites = [tests, [ORACLE], [MATCHER], [PACKETS]];
  for (const test of suites.flat()) baselineOf(test, mutant);
  const columns = tree.withChange(file, find, replace, () =>
    suites.map((suite) => suite.some((test) => notices(play(tree, test, mutant), baselineOf(test, mutant)))),
  );
  if (columns === undefined) throw new Error(`${file} no longer has ${find}`);
  if (!columns.includes(true)) unnoticed++;
  console.log(`| ${file} | ${shown(find)} → ${shown(replace)} | ${columns.map((column) => (column ? "notices" : "-")).join(" | ")} |`);
}
console.log(`${mutants.length} mutants, ${unnoticed} that no suite notices`);
process.exitCode = unnoticed === 0 && mutants.length > 0 ? 0 : 1;
