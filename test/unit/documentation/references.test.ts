/** What a page tells to run or to read is there: scripts of npm, scripts of ours, files, and headings that links lead to. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PAGES, ROOT, targetOf } from "./pages.ts";

/** Suites of `scripts/jest`, each a folder below test/. */
const SUITE = /bash scripts\/jest ([a-z-]+)/g;

function inPages(pattern: RegExp): readonly { readonly page: string; readonly found: string }[] {
  return PAGES.flatMap(({ path, text }) => [...text.matchAll(pattern)].map(([, found = ""]) => ({ page: path, found })));
}

/** As GitHub makes it: letters, digits, `_` and `-` stay, blanks become `-`. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");
}

function anchorsOf(path: string): readonly string[] {
  return [...readFileSync(join(ROOT, path), "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => anchorOf(heading));
}

describe("The pages", () => {
  it("name scripts of npm that exist", () => {
    const { scripts }: { scripts: Record<string, string> } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const named = inPages(/\bnpm run ([\w:-]+)/g);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter(({ found }) => !(found in scripts))).toEqual([]);
  });

  it("name scripts of the project that exist", () => {
    const named = inPages(/\bbash ((?:scripts|\.ci)\/[\w./-]*\w)/g);
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter(({ found }) => !existsSync(join(ROOT, found)))).toEqual([]);
  });

  it("name suites that exist", () => {
    const named = inPages(SUITE);
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter(({ found }) => !existsSync(join(ROOT, "test", found)))).toEqual([]);
  });

  it("name tests, sources and manifests that exist", () => {
    const named = inPages(/`((?:cmd|lib|dataplane|ipam-plugin|manifests|docs|scripts|test)\/[\w./-]*\w)`/g);
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter(({ found }) => !existsSync(join(ROOT, found)))).toEqual([]);
  });

  it("link to files and headings that exist", () => {
    const links = PAGES.flatMap((page) =>
      [...page.text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)].map(([, file = "", anchor]) => ({
        page: page.path,
        file: file === "" ? page.path : targetOf(page, file),
        anchor,
      })),
    );
    expect(links.length).toBeGreaterThan(50);
    expect(links.filter(({ file }) => !existsSync(join(ROOT, file)))).toEqual([]);
    expect(links.filter(({ file, anchor }) => anchor !== undefined && !anchorsOf(file).includes(anchor))).toEqual([]);
  });
});
