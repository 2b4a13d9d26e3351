/** docs/project/test-map.md names tests: they are there, and its tables of numbered cases are as scripts/test-map.ts writes them. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { testMap } from "../../../scripts/test-map.ts";

const ROOT = join(__dirname, "../../..");
const PAGE = readFileSync(join(ROOT, "docs/project/test-map.md"), "utf8");

/** What the lists say, each item in one line. */
const ITEMS = PAGE.split(/\n(?! +\S)/)
  .filter((item) => item.startsWith("- "))
  .map((item) => item.replaceAll(/\n +/g, " "));

/** "`file` "title" "title"": every title with the file before it. */
const NAMED = [...ITEMS.join("\n").matchAll(/`([a-z][\w./-]*\.ts)`((?: "[^"]+")+)/g)].flatMap(([, file = "", titles = ""]) =>
  [...titles.matchAll(/"([^"]+)"/g)].map(([, title = ""]) => ({ file, title })),
);

const sources = new Map<string, string>();

function sourceOf(file: string): string {
  const path = join(ROOT, "test", file);
  const source = sources.get(file) ?? (existsSync(path) ? readFileSync(path, "utf8") : "");
  sources.set(file, source);
  return source;
}

describe("docs/project/test-map.md", () => {
  it("names tests that exist", () => {
    expect(NAMED.length).toBeGreaterThan(100);
    expect(NAMED.filter(({ file, title }) => !sourceOf(file).includes(title))).toEqual([]);
  });

  it("gives every case a test, or says why it has none", () => {
    const tables = PAGE.split("\n").filter((line) => line.startsWith("| ") && !/^\| (?:---|Case|What) /.test(line));
    const rows = [...ITEMS, ...tables];
    expect(rows.length).toBeGreaterThan(100);
    const empty = rows.filter((row) => !/`[a-z][\w./-]*\.ts`|^- [AP]-[A-Z]\d+: no test yet$/.test(row));
    expect(empty).toEqual([]);
  });

  it("has every numbered case of Calico's plugin suites and of the agent's contract, as the tests' titles say it (bash scripts/bun scripts/test-map.ts)", () => {
    expect(testMap(PAGE)).toBe(PAGE);
  });
});
