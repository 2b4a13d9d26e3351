/**
 * Jest that stays: runs the files that its parent names, again and again, and answers each time with a report (warm.ts). Jest's own start
 * and the parsing of what all tests import cost four times as much as the tests of one mutant.
 */
import { runCLI } from "jest";
import { reportOf } from "./reporter.ts";

const root = process.cwd();

process.on("message", async ({ files, testTimeout }: { readonly files: string[]; readonly testTimeout: number }) => {
  const { results } = await runCLI(
    { $0: "", _: files, rootDir: root, runInBand: true, runTestsByPath: true, reporters: [], silent: true, watchman: false, testTimeout },
    [root],
  );
  process.send?.(reportOf(results, root));
});
