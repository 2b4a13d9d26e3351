/** The list of mutants is about today's code: `npm run test:mutation` takes long and is not a part of CI, so a line that is gone shows here. */
import { existsSync, readFileSync } from "node:fs";

const mutants: { file: string; find: string; tests: string[] }[] = JSON.parse(readFileSync("test/mutation/mutants.json", "utf8"));

describe("test/mutation/mutants.json", () => {
  it("changes lines that are there exactly once", () => {
    const occurrences = ({ file, find }: (typeof mutants)[number]) =>
      existsSync(file) ? readFileSync(file, "utf8").split(find).length - 1 : 0;
    expect(mutants.filter((mutant) => occurrences(mutant) !== 1)).toEqual([]);
  });
});
