/** Unit tests in a process that stays from one mutant to the next (warm-child.ts). */
import { join } from "node:path";
import type { Report } from "./reporter.ts";
import { NOTHING, readReport, type TestRun } from "./tree.ts";

/** Runs of one process, as tests leave some memory behind. */
const RUNS = 50;
const TEST_LIMIT_MS = 30_000;

export class WarmTests implements Disposable {
  readonly #root: string;
  #child: { readonly process: Bun.Subprocess; readonly answer: { resolve: (report: Report) => void }; runs: number } | undefined;

  /** @param root where the tree is that the tests are of */
  constructor(root: string) {
    this.#root = root;
  }

  /** @param files below the root */
  async run(files: readonly string[], limitSeconds: number): Promise<TestRun> {
    // What the run before left may end the process late, by an error that nobody handles. Twice means that these files do.
    return (await this.#once(files, limitSeconds)) ?? (await this.#once(files, limitSeconds)) ?? NOTHING;
  }

  /** @returns `undefined` where the process ended without an answer */
  async #once(files: readonly string[], limitSeconds: number): Promise<TestRun | undefined> {
    const child = this.#running();
    const answered = Promise.withResolvers<Report | "too late" | undefined>();
    child.answer.resolve = answered.resolve;
    const limit = setTimeout(() => answered.resolve("too late"), limitSeconds * 1000);
    void child.process.exited.then(() => answered.resolve(undefined));
    child.process.send({ files: [...files], testTimeout: TEST_LIMIT_MS });
    const report = await answered.promise;
    clearTimeout(limit);
    child.runs++;
    const run = report === "too late" ? { ...NOTHING, isTooLate: true } : report && readReport(report);
    // A test that was given up goes on in there.
    if (run === undefined || run.isTooLate || child.runs === RUNS) this.#end();
    return run;
  }

  [Symbol.dispose](): void {
    this.#end();
  }

  #running() {
    if (this.#child?.process.exitCode === null) return this.#child;
    const answer: { resolve: (report: Report) => void } = { resolve: () => {} };
    const process = Bun.spawn([join(this.#root, "node_modules/bun/bin/bun.exe"), "--bun", "test/mutation/warm-child.ts"], {
      cwd: this.#root,
      stdio: ["ignore", "ignore", "ignore"],
      ipc: (report: Report) => answer.resolve(report),
    });
    this.#child = { process, answer, runs: 0 };
    return this.#child;
  }

  #end(): void {
    this.#child?.process.kill("SIGKILL");
    this.#child = undefined;
  }
}
