/** The layout that docs/project/design.md draws (section 3) is the one of the tree. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const layout = /^## 3\. Layout\n\n```\n(.*?)^```/ms.exec(readFileSync("docs/project/design.md", "utf8"))?.[1] ?? "";
/** A row begins in the first column; what continues it is indented. */
const rows = new Map(layout.split(/\n(?=\S)/).map((row) => [/^[\w-]+/.exec(row)?.[0] ?? "", row]));

/** What holds files; Git knows no empty folders. */
function foldersOf(path: string): string[] {
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && readdirSync(join(path, entry.name)).length > 0)
    .map(({ name }) => name);
}

describe("The layout of the design page", () => {
  it("has a row for each folder that is compiled, and for none that is not there", () => {
    const { include }: { include: string[] } = JSON.parse(readFileSync("tsconfig.json", "utf8"));
    expect([...rows.keys()]).toEqual(expect.arrayContaining(include));
    expect([...rows.keys()].filter((name) => !existsSync(name))).toEqual([]);
  });

  it.each(["agent", "controller", "dataplane", "doctor", "ipam-plugin", "lib", "main-plugin", "test"])("names the folders of %s", (top) => {
    const named = [...(rows.get(top) ?? "").slice(top.length + 1).matchAll(/([\w-]+)\//g)].map(([, name]) => name);
    expect(foldersOf(top).filter((name) => !named.includes(name))).toEqual([]);
  });
});
