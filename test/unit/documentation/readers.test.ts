/** A page can be found, says at its beginning whom it is for, and can be read beside a terminal. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { phrases } from "../../support/words.ts";
import { PAGES, type Page, ROOT, targetOf } from "./pages.ts";

const INDEX = "docs/index.md";
const MAX_LINE = 160;
const pages = PAGES.filter(({ path }) => path.startsWith("docs/"));

/** Paths of the project's pages that this one links to. */
function linksOf(page: Page): readonly string[] {
  return [...page.text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, link = ""]) => targetOf(page, link));
}

/** Everything that can be reached from a page by links. */
function reachedFrom(start: string): ReadonlySet<string> {
  const reached = new Set([start]);
  for (const path of reached) {
    const page = PAGES.find((one) => one.path === path);
    for (const link of page === undefined ? [] : linksOf(page)) reached.add(link);
  }
  return reached;
}

describe("Each page of docs/", () => {
  it("says in its first line whom it is for", () => {
    expect(pages.length).toBeGreaterThan(35);
    expect(pages.filter(({ text }) => !/^# .+\n\n\*For [^*]+\*\n/.test(text)).map(({ path }) => path)).toEqual([]);
  });

  it("can be reached from the index, and the index from README", () => {
    const reached = reachedFrom(INDEX);
    expect(pages.filter(({ path }) => !reached.has(path)).map(({ path }) => path)).toEqual([]);
    expect(reachedFrom("README.md")).toContain(INDEX);
  });

  it("is linked from the index itself, unless it is the index", () => {
    const index = pages.find(({ path }) => path === INDEX);
    const linked = index === undefined ? [] : linksOf(index);
    expect(pages.map(({ path }) => path).filter((path) => path !== INDEX && !linked.includes(path))).toEqual([]);
  });
});

describe("The pages", () => {
  it(`have no line of more than ${MAX_LINE} characters, but for rows of tables`, () => {
    const long = PAGES.flatMap(({ path, text }) =>
      text.split("\n").flatMap((line, index) => (line.length > MAX_LINE && !line.startsWith("|") ? [`${path}:${index + 1}`] : [])),
    );
    expect(long).toEqual([]);
  });

  it("name the versions of the servers that the suites build", () => {
    const page = readFileSync(join(ROOT, "docs/reference/requirements.md"), "utf8");
    const versionOf = (folder: string, module: string) => {
      const source = readFileSync(join(ROOT, "test/cluster/servers", folder, "go.mod"), "utf8");
      return new RegExp(`^require ${module} v([\\d.]+)$`, "m").exec(source)?.[1];
    };
    for (const [row, folder, module] of [
      ["Kubernetes", "kubernetes", "k8s.io/kubernetes"],
      ["etcd as the datastore", "etcd", "go.etcd.io/etcd/server/v3"],
      ["Helm", "helm", "helm.sh/helm/v3"],
    ] as const)
      expect(page).toContain(`| ${row} | ${versionOf(folder, module)} |`);
  });

  it("have the words that people search for", () => {
    const all = pages.map(({ text }) => text.toLowerCase()).join("\n");
    const words = phrases`uninstall, roll back, sizing, requirements, limitations, supported versions, high availability, glossary`;
    expect(words.filter((word) => !all.includes(word))).toEqual([]);
  });
});

describe("The sources", () => {
  it("name no page of docs/ that does not exist", () => {
    const folders = [
      "agent",
      "cmd",
      "controller",
      "dataplane",
      "doctor",
      "handover",
      "installer",
      "ipam-plugin",
      "lib",
      "main-plugin",
      "manifests",
      "ui",
    ];
    const files = folders.flatMap((folder) =>
      [...new Bun.Glob("**/*.{ts,tsx,yaml,tpl,txt,service}").scanSync(join(ROOT, folder))].map((file) => join(folder, file)),
    );
    const missing = files.flatMap((file) =>
      [...readFileSync(join(ROOT, file), "utf8").matchAll(/\bdocs\/[\w/-]+\.md\b/g)]
        .filter(([page]) => !existsSync(join(ROOT, page)))
        .map(([page]) => `${file}: ${page}`),
    );
    expect(files.length).toBeGreaterThan(500);
    expect(missing).toEqual([]);
  });
});
