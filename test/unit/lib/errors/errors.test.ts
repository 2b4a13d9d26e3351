import { readFileSync } from "node:fs";
import { ERROR_CATALOGUE, entryOf } from "../../../../lib/errors/error-catalogue.ts";
import type { ErrorWord } from "../../../../lib/errors/errors.ts";

describe("docs/reference/errors.md", () => {
  /** Items of each area: "- `word` (code): meaning", then "→ next step", wrapped. */
  const areas = readFileSync("docs/reference/errors.md", "utf8")
    .split(/^## /m)
    .slice(1)
    .map((area) =>
      [...area.replaceAll(/\n {2}(?!→)/g, " ").matchAll(/^- `([a-z-]+)` \((\d+)\): (.*)\n {2}→ (.*)$/gm)].map(
        ([, word = "", code = "", meaning = "", next = ""]) => ({ word, code: Number(code), meaning, next }),
      ),
    );
  const rows = areas.flat();

  it("has one entry for each word of the catalogue", () => {
    expect(rows.map(({ word }) => word).sort()).toEqual(Object.keys(ERROR_CATALOGUE).sort());
  });

  it("has several areas, each with its words in alphabetical order", () => {
    expect(areas.length).toBeGreaterThan(5);
    const words = areas.map((area) => area.map(({ word }) => word));
    expect(words).toEqual(words.map((area) => [...area].sort()));
    expect(words.filter((area) => area.length === 0)).toEqual([]);
  });

  it.each(Object.keys(ERROR_CATALOGUE) as ErrorWord[])("tells code and next step of %s as the plugins do, and what happened", (word) => {
    const { code, next } = entryOf(word);
    expect(rows.find((row) => row.word === word)).toEqual({
      word,
      code,
      meaning: expect.stringMatching(/^.{10,}\.$/),
      next,
    });
  });
});
