/** A copy of the tree in which one line at a time may be changed, and the tests played over it. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What one run of Jest said: full names of the tests, by how they ended. */
export interface TestRun {
  readonly passed: ReadonlySet<string>;
  readonly failed: ReadonlyMap<string, string>;
  /** The run was ended from outside, or a test by Jest's own limit. */
  readonly isTooLate: boolean;
  /** Every file was loaded and every test had its turn. */
  readonly isWhole: boolean;
}

interface JestReport {
  readonly numRuntimeErrorTestSuites: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

const RUN_LIMIT_SECONDS = 300;
/** For each test: one that hangs with a mutant should not take as long as a slow one may. */
const TEST_LIMIT_MS = 30_000;
/** What `timeout` ends with: the limit passed, and the kill that follows where the end is ignored. */
const ENDED_FROM_OUTSIDE: ReadonlySet<number | null> = new Set([124, 137]);
const NOTHING: TestRun = { passed: new Set(), failed: new Map(), isTooLate: false, isWhole: false };

export class Tree implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), "tortie-mutation-"));

  constructor(source: string) {
    const files = run(source, ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]).stdout.split("\0");
    for (const file of files.filter((name) => name !== "")) cpSync(join(source, file), this.#path(file));
    symlinkSync(join(source, "node_modules"), this.#path("node_modules"));
    mkdirSync(this.#path(".cache"), { recursive: true });
  }

  /** @returns what `work` does with the file so changed, and undefined where the pattern is not there exactly once */
  withChange<T>(file: string, find: string, replace: string, work: () => T): T | undefined {
    const path = this.#path(file);
    const text = readOrNothing(path);
    if (text?.split(find).length !== 2) return undefined;
    const changed = text.replace(find, () => replace);
    return parses(changed) ? this.withText(file, changed, work) : undefined;
  }

  /** @returns what `work` does while the file has another text */
  withText<T>(file: string, changed: string, work: () => T): T {
    const path = this.#path(file);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, changed);
    try {
      return work();
    } finally {
      writeFileSync(path, text);
    }
  }

  /** Whether TypeScript accepts the tree. Names that a change left without use do not matter. What it learnt of the other files it keeps. */
  compiles(): boolean {
    const cache = ["--incremental", "--tsBuildInfoFile", ".cache/mutation.tsbuildinfo"];
    const allowUnused = ["--noUnusedLocals", "false", "--noUnusedParameters", "false"];
    return run(this.#directory, ["node_modules/.bin/tsc", "--noEmit", ...allowUnused, ...cache]).status === 0;
  }

  /** @param test arguments of scripts/jest: "unit main-plugin/gc" */
  test(test: string): TestRun {
    const [suite = "", ...narrow] = test.split(" ");
    // Every suite but the unit tests runs the built executables.
    if (suite !== "unit" && run(this.#directory, ["bash", "scripts/build"]).status !== 0) return NOTHING;
    const report = this.#path(".cache/mutation.json");
    rmSync(report, { force: true });
    const { status } = run(this.#directory, [
      ...["timeout", "--kill-after=10", String(RUN_LIMIT_SECONDS), "bash", "scripts/jest", suite, ...narrow],
      ...[`--testTimeout=${TEST_LIMIT_MS}`, "--json", `--outputFile=${report}`],
    ]);
    if (ENDED_FROM_OUTSIDE.has(status)) return { ...NOTHING, isTooLate: true };
    const text = readOrNothing(report);
    return text === undefined ? NOTHING : readReport(JSON.parse(text));
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #path(file: string): string {
    return join(this.#directory, file);
  }
}

function readReport(report: JestReport): TestRun {
  const passed = new Set<string>();
  const failed = new Map<string, string>();
  for (const { assertionResults } of report.testResults) {
    for (const { fullName, status, failureMessages } of assertionResults) {
      if (status === "passed") passed.add(fullName);
      if (status === "failed") failed.set(fullName, failureMessages.join("\n"));
    }
  }
  const isTooLate = [...failed.values()].some((message) => message.includes("Exceeded timeout of"));
  return { passed, failed, isTooLate, isWhole: report.numRuntimeErrorTestSuites === 0 };
}

function run(cwd: string, [command = "", ...args]: readonly string[]): { readonly status: number | null; readonly stdout: string } {
  return spawnSync(command, args, { cwd, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
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
