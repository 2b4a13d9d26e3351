/** The pages that people read, for the tests that hold them to the code. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

export const ROOT = join(__dirname, "../../..");

export interface Page {
  /** From the project's root: "docs/how-to/upgrade.md". */
  readonly path: string;
  readonly text: string;
}

const PATHS: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "CHANGELOG.md",
  "manifests/README.md",
  "test/support/kubernetes/README.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .map((name) => `docs/${name}`)
    .filter((path) => !path.startsWith("docs/project/contract/")),
];

export const PAGES: readonly Page[] = PATHS.filter((path) => path.endsWith(".md")).map((path) => ({
  path,
  text: readFileSync(join(ROOT, path), "utf8"),
}));

/** What stands between the fences of a language, for instance "json"; indented fences count too. */
export function blocksOf({ text }: Page, language: string): readonly string[] {
  return [...text.matchAll(/^ *```(\w*)\n([\s\S]*?)^ *```$/gm)].flatMap(([, name, block = ""]) => (name === language ? [block] : []));
}

/** Where a link of the page leads, from the project's root. */
export function targetOf({ path }: Page, link: string): string {
  return join(dirname(path), link);
}
