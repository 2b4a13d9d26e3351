/**
 * Plays the kept list of mutants (mutants.json): each changes one line of a copy of the tree, and the tests that it names must notice.
 *
 * A pattern must be found exactly once in its file; one that is gone is stale, and counts as a failure like a survivor's area below the
 * limit: the list is only worth what it says about today's code. Arguments narrow the list: an area, or a part of a file's path.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

interface Mutant {
  readonly area: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** Arguments of scripts/jest, one run each: "unit main-plugin/gc". Killed by the first that fails. */
  readonly tests: readonly string[];
}

type Outcome = "killed" | "survived" | "stale";

/** Share of an area's mutants that its tests must notice. */
const LIMIT = 0.9;
const RUN_LIMIT_MS = 300_000;

const ROOT = resolve(import.meta.dir, "../..");

class Tree implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "tortie-mutation-"));

  constructor() {
    const files = run(ROOT, ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]).stdout.split("\0");
    for (const file of files.filter((name) => name !== "")) cpSync(join(ROOT, file), this.path(file));
    symlinkSync(join(ROOT, "node_modules"), this.path("node_modules"));
  }

  path(file: string): string {
    return join(this.#directory, file);
  }

  /** @returns whether all tests pass */
  passes(tests: readonly string[]): boolean {
    return tests.every((test) => {
      const [suite = "", ...narrow] = test.split(" ");
      // Every suite but the unit tests runs the built executables.
      if (suite !== "unit" && run(this.#directory, ["bash", "scripts/build"]).status !== 0) return false;
      return run(this.#directory, ["bash", "scripts/jest", suite, ...narrow, "--bail"]).status === 0;
    });
  }

  play({ file, find, replace, tests }: Mutant): Outcome {
    const path = this.path(file);
    const text = readOrNothing(path);
    if (text === undefined || text.split(find).length !== 2) return "stale";
    const mutated = text.replace(find, () => replace);
    if (!parses(mutated)) return "stale";
    writeFileSync(path, mutated);
    try {
      return this.passes(tests) ? "survived" : "killed";
    } finally {
      writeFileSync(path, text);
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

function run(cwd: string, [command = "", ...args]: readonly string[]): { readonly status: number | null; readonly stdout: string } {
  return spawnSync(command, args, { cwd, encoding: "utf8", timeout: RUN_LIMIT_MS, maxBuffer: 64 * 1024 * 1024 });
}

function readOrNothing(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function parses(source: string): boolean {
  try {
    new Bun.Transpiler({ loader: "ts" }).transformSync(source);
    return true;
  } catch {
    return false;
  }
}

function readMutants(): readonly Mutant[] {
  const all: readonly Mutant[] = JSON.parse(readFileSync(join(dirname(import.meta.path), "mutants.json"), "utf8"));
  const wanted = process.argv.slice(2);
  return wanted.length === 0 ? all : all.filter(({ area, file }) => wanted.some((part) => area === part || file.includes(part)));
}

function report(outcomes: readonly { readonly mutant: Mutant; readonly outcome: Outcome }[]): boolean {
  let isGood = outcomes.length > 0;
  for (const area of new Set(outcomes.map(({ mutant }) => mutant.area))) {
    const ofArea = outcomes.filter(({ mutant }) => mutant.area === area).map(({ outcome }) => outcome);
    const killed = ofArea.filter((outcome) => outcome === "killed").length;
    const stale = ofArea.filter((outcome) => outcome === "stale").length;
    console.log(`${area}: ${killed} of ${ofArea.length} killed (${Math.floor((killed / ofArea.length) * 100)} %), ${stale} stale`);
    if (stale > 0 || killed / ofArea.length < LIMIT) isGood = false;
  }
  return isGood;
}

using tree = new Tree();
const mutants = readMutants();
for (const test of new Set(mutants.flatMap(({ tests }) => tests))) {
  if (!tree.passes([test])) throw new Error(`${test} fails without any mutant: nothing can be told`);
}
const outcomes = mutants.map((mutant) => {
  const outcome = tree.play(mutant);
  console.log(`${outcome.padEnd(8)} ${mutant.file}: ${mutant.find.trim()} => ${mutant.replace.trim()}`);
  return { mutant, outcome };
});
process.exitCode = report(outcomes) ? 0 : 1;
