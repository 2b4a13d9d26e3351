import { readFileSync } from "node:fs";
import { ERROR_CATALOGUE } from "../../../../lib/errors/error-catalogue.ts";

describe("docs/reference/errors.md", () => {
  const rows = readFileSync("docs/reference/errors.md", "utf8")
    .split("\n")
    .flatMap((line) => {
      const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
      const word = /^`([a-z-]+)`$/.exec(cells[1] ?? "")?.[1];
      return word === undefined ? [] : [{ word, code: Number(cells[2]), meaning: cells[3] ?? "", next: cells[4] ?? "" }];
    });

  it("has one row for each word of the catalogue, in alphabetical order", () => {
    expect(rows.map(({ word }) => word)).toEqual(Object.keys(ERROR_CATALOGUE).sort());
  });

  it.each(Object.entries(ERROR_CATALOGUE))(
    "tells code and next step of %s as the plugins do, and what happened",
    (word, { code, next }) => {
      expect(rows.find((row) => row.word === word)).toEqual({
        word,
        code,
        meaning: expect.stringMatching(/^.{10,}\.$/),
        next: next.replaceAll("|", "\\|"),
      });
    },
  );
});
