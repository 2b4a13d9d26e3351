/** A copy of the tree in which one line at a time may be changed, and the tests played over it. */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { REPORT_FILE, type Report } from "./reporter.ts";

/** Another text of a file. */
export interface Variant {
  /** Below the tree's root. */
  readonly file: string;
  /** What stands in it. */
  readonly text: string;
}

/** What one run of Jest said: full names of the tests, by how they ended. */
export interface TestRun {
  readonly passed: ReadonlySet<string>;
  readonly failed: ReadonlyMap<string, string>;
  /** Those with a test that failed, below the tree's root. */
  readonly failedFiles: ReadonlySet<string>;
  /** The run was ended from outside, or a test by Jest's own limit. */
  readonly isTooLate: boolean;
  /** Every file was loaded and every test had its turn. */
  readonly isWhole: boolean;
}

/** In the message of a test that Jest has given up. */
export const TEST_IS_TOO_LATE = "Exceeded timeout of";
const RUN_LIMIT_SECONDS = 300;
/** For each test: one that hangs with a mutant should not take as long as a slow one may. */
const TEST_LIMIT_MS = 30_000;
/** What `timeout` ends with: the limit passed, and the kill that follows where the end is ignored. */
const ENDED_FROM_OUTSIDE: ReadonlySet<number | null> = new Set([124, 137]);
export const NOTHING: TestRun = { passed: new Set(), failed: new Map(), failedFiles: new Set(), isTooLate: false, isWhole: false };

export class Tree implements Disposable {
  /** Its root. */
  readonly directory = mkdtempSync(join(tmpdir(), "tortie-mutation-"));

  /** All below its root, but for what git ignores. */
  readonly files: readonly string[];

  constructor(source: string) {
    const listed = run(source, ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]).stdout.split("\0");
    this.files = listed.filter((name) => name !== "" && existsSync(join(source, name)));
    for (const file of this.files) cpSync(join(source, file), this.#path(file));
    symlinkSync(join(source, "node_modules"), this.#path("node_modules"));
    mkdirSync(this.#path(".cache"), { recursive: true });
  }

  /** @returns what `work` does with the file so changed, and undefined where the pattern is not there exactly once */
  withChange<T>(file: string, find: string, replace: string, work: () => T): T | undefined {
    const path = this.#path(file);
    const text = readOrNothing(path);
    if (text?.split(find).length !== 2) return undefined;
    const changed = text.replace(find, () => replace);
    if (!parses(changed)) return undefined;
    using _changed = this.changed({ file, text: changed });
    return work();
  }

  /** Gives a file another text until it is disposed of. */
  changed({ file, text }: Variant): Disposable {
    const path = this.#path(file);
    const before = readFileSync(path, "utf8");
    writeFileSync(path, text);
    return { [Symbol.dispose]: () => writeFileSync(path, before) };
  }

  /**
   * Which of these texts of files TypeScript accepts. They are compiled together, each as a file of its own beside the one that it stands
   * for, so that a hundred cost what one does. A file whose unchanged text is not accepted there, as its own classes are not those that the
   * rest of the tree knows, has its texts compiled one by one. Names that a change left without use do not matter.
   */
  accepted(variants: readonly Variant[]): ReadonlySet<Variant> {
    const files = [...new Set(variants.map(({ file }) => file))];
    const unchanged = files.map((file) => ({ file, text: readFileSync(this.#path(file), "utf8") }));
    const refused = this.#refusedBeside([...variants, ...unchanged]);
    const alone = new Set(unchanged.filter((variant) => refused.has(variant)).map(({ file }) => file));
    const isAccepted = (variant: Variant) => {
      if (!alone.has(variant.file)) return !refused.has(variant);
      using _changed = this.changed(variant);
      return this.#compile().status === 0;
    };
    return new Set(variants.filter(isAccepted));
  }

  #refusedBeside(variants: readonly Variant[]): ReadonlySet<Variant> {
    const beside = new Map(variants.map((variant, index) => [variant.file.replace(/\.ts$/, `.mutant${index}.ts`), variant]));
    for (const [file, { text }] of beside) writeFileSync(this.#path(file), text);
    try {
      const { stdout } = this.#compile();
      const named = [...stdout.matchAll(/^([^\s(]+)\(\d+,\d+\): error/gm)];
      return new Set(named.flatMap(([, file = ""]) => beside.get(file) ?? []));
    } finally {
      for (const file of beside.keys()) rmSync(this.#path(file));
    }
  }

  /** What tsc learnt of the other files it keeps. */
  #compile() {
    const cache = ["--incremental", "--tsBuildInfoFile", ".cache/mutation.tsbuildinfo"];
    const allowUnused = ["--noUnusedLocals", "false", "--noUnusedParameters", "false"];
    return run(this.directory, ["node_modules/.bin/tsc", "--noEmit", "--pretty", "false", ...allowUnused, ...cache]);
  }

  /**
   * @param test arguments of scripts/jest: "unit main-plugin/gc"
   * @param args further ones
   * @param runsSource whether these tests need no executables of the tree as it is now
   */
  test(test: string, args: readonly string[] = [], runsSource = test.startsWith("unit "), limitSeconds = RUN_LIMIT_SECONDS): TestRun {
    const [suite = "", ...narrow] = test.split(" ");
    const isBuilt = runsSource && (suite === "unit" || existsSync(this.#path("dist/bin/tortie")));
    if (!isBuilt && run(this.directory, ["bash", "scripts/build"]).status !== 0) return NOTHING;
    const report = this.#path(REPORT_FILE);
    rmSync(report, { force: true });
    const { status } = run(this.directory, [
      ...["timeout", "--kill-after=10", String(limitSeconds), "bash", "scripts/jest", suite, ...narrow],
      ...args,
      ...[`--testTimeout=${TEST_LIMIT_MS}`, `--reporters=${this.#path("test/mutation/reporter.ts")}`],
    ]);
    if (ENDED_FROM_OUTSIDE.has(status)) return { ...NOTHING, isTooLate: true };
    const text = readOrNothing(report);
    return text === undefined ? NOTHING : readReport(JSON.parse(text));
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }

  #path(file: string): string {
    return join(this.directory, file);
  }
}

export function readReport({ tests, broken }: Report): TestRun {
  const failures = tests.filter(({ status }) => status === "failed");
  return {
    passed: new Set(tests.filter(({ status }) => status === "passed").map(({ name }) => name)),
    failed: new Map(failures.map(({ name, failure }) => [name, failure])),
    failedFiles: new Set(failures.map(({ file }) => file)),
    isTooLate: failures.some(({ failure }) => failure.includes(TEST_IS_TOO_LATE)),
    isWhole: broken === 0,
  };
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
