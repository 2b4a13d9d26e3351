/** Jest's report for tree.ts. Its own `--json` writes nothing where `--bail` ends a run; reporters hear of the end then too. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** How one run of Jest ended, as it stands in the file. */
export interface Report {
  /** Files that could not be loaded. */
  readonly broken: number;
  readonly tests: readonly { readonly file: string; readonly name: string; readonly status: string; readonly failure: string }[];
}

/** Where the report of a tree is, below its root. */
export const REPORT_FILE = ".cache/mutation.json";

interface Results {
  readonly numRuntimeErrorTestSuites: number;
  readonly testResults: readonly {
    readonly testFilePath: string;
    readonly testResults: readonly { readonly fullName: string; readonly status: string; readonly failureMessages: readonly string[] }[];
  }[];
}

export default class MutationReporter {
  readonly #rootDir: string;

  constructor({ rootDir }: { readonly rootDir: string }) {
    this.#rootDir = rootDir;
  }

  onRunComplete(_contexts: unknown, results: Results): void {
    writeFileSync(join(this.#rootDir, REPORT_FILE), JSON.stringify(reportOf(results, this.#rootDir)));
  }
}

export function reportOf({ numRuntimeErrorTestSuites, testResults }: Results, rootDir: string): Report {
  return {
    broken: numRuntimeErrorTestSuites,
    tests: testResults.flatMap(({ testFilePath, testResults: tests }) =>
      tests.map(({ fullName, status, failureMessages }) => ({
        file: testFilePath.slice(rootDir.length + 1),
        name: fullName,
        status,
        failure: failureMessages.join("\n"),
      })),
    ),
  };
}
