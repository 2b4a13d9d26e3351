/** The import order of the folders, as `npm run lint` holds it (.dependency-cruiser.cjs). */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { execaSync } from "execa";
import { TemporaryDirectory } from "../support/fixtures.ts";

const ROOT = join(import.meta.dirname, "../..");
const CRUISER = join(ROOT, "node_modules/dependency-cruiser/bin/dependency-cruise.mjs");
const TOPS = ["agent", "cmd", "dataplane", "doctor", "handover", "ipam-plugin", "lib", "main-plugin"];

function cruise(directory: string, ...args: readonly string[]) {
  const { exitCode, stdout } = execaSync(process.execPath, ["--bun", CRUISER, "--config", join(ROOT, ".dependency-cruiser.cjs"), ...args], {
    cwd: directory,
    reject: false,
  });
  return { status: exitCode, output: stdout };
}

/** "rule: importing file", for what a tree of these files breaks. */
function broken(files: Readonly<Record<string, string>>): readonly string[] {
  using directory = new TemporaryDirectory();
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(directory.path, dirname(path)), { recursive: true });
    writeFileSync(join(directory.path, path), text);
  }
  const { status, output } = cruise(directory.path, ...new Set(Object.keys(files).map((path) => path.split("/")[0] ?? "")));
  const found = [...output.matchAll(/error ([a-z-]+: [^ ]+)/g)].map(([, problem = ""]) => problem);
  expect(status).toBe(found.length);
  return found.sort();
}

const LEAF = "export const one = 1;\n";

describe("the import order", () => {
  it("accepts what imports downwards, and everything in tests", () => {
    const files = {
      "lib/errors/errors.ts": LEAF,
      "lib/datastore/datastore.ts": 'import { one } from "../errors/errors.ts";\nexport const two = one;\n',
      "ipam-plugin/add.ts": 'import { two } from "../lib/datastore/datastore.ts";\nexport const three = two;\n',
      "cmd/main.ts": 'import { three } from "../ipam-plugin/add.ts";\nexport const four = three;\n',
      "test/unit/add.test.ts": 'import { four } from "../../cmd/main.ts";\nexport const five = four;\n',
    };
    expect(broken(files)).toEqual([]);
  });

  it("refuses what imports upwards, if only a type", () => {
    const refused: readonly (readonly [from: string, to: string, rule: string])[] = [
      ["lib/errors/a.ts", "lib/datastore/b.ts", "lib-errors-imports-downwards"],
      ["lib/config/a.ts", "lib/workload/b.ts", "lib-config-imports-downwards"],
      ["lib/selector/a.ts", "ipam-plugin/kubevirt/b.ts", "lib-imports-downwards"],
      ["lib/cni/a.ts", "lib/other/b.ts", "lib-folders-are-known"],
      ["ipam-plugin/a.ts", "main-plugin/b.ts", "ipam-plugin-imports-downwards"],
      ["ipam-plugin/allocator/a.ts", "dataplane/netlink/b.ts", "ipam-plugin-imports-downwards"],
      ["main-plugin/a.ts", "cmd/b.ts", "main-plugin-imports-downwards"],
      ["doctor/a.ts", "test/support/b.ts", "doctor-imports-downwards"],
      ["dataplane/linux/a.ts", "lib/config/b.ts", "dataplane-is-plain-linux"],
      ["agent/endpoints/a.ts", "agent/api/b.ts", "agent-endpoints-imports-downwards"],
      ["agent/observe/a.ts", "agent/agent.ts", "agent-observe-imports-downwards"],
      ["agent/journal/a.ts", "agent/other/b.ts", "agent-folders-are-known"],
      ["main-plugin/c.ts", "agent/observe/c.ts", "main-plugin-imports-downwards"],
    ];
    const files = refused.flatMap(([from, to]) => {
      const path = `${"../".repeat(from.split("/").length - 1)}${to}`;
      return [
        [to, "export type One = 1;\n"],
        [from, `import type { One } from "${path}";\nexport type Two = One;\n`],
      ] as const;
    });
    expect(broken(Object.fromEntries(files))).toEqual(refused.map(([from, , rule]) => `${rule}: ${from}`).sort());
  });

  it("refuses folders that import each other, although no two files do", () => {
    const files = {
      "dataplane/linux/a.ts": 'import { one } from "../netlink/b.ts";\nexport const two = one;\n',
      "dataplane/netlink/b.ts": LEAF,
      "dataplane/netlink/c.ts": 'import { four } from "../linux/d.ts";\nexport const three = four;\n',
      "dataplane/linux/d.ts": "export const four = 4;\n",
    };
    expect(broken(files)).toEqual(["folders-are-acyclic: dataplane/linux", "folders-are-acyclic: dataplane/netlink"]);
  });

  it("is checked over every import of the tree", () => {
    const found: unknown = JSON.parse(cruise(ROOT, "-T", "json", ...TOPS).output);
    const seen = new Set<string>();
    for (const { source, dependencies } of modulesOf(found)) for (const { resolved } of dependencies) seen.add(`${source} ${resolved}`);
    const written = new Set<string>();
    for (const top of TOPS) {
      for (const name of readdirSync(join(ROOT, top), { recursive: true, encoding: "utf8" })) {
        if (!name.endsWith(".ts")) continue;
        const file = join(top, name);
        const text = readFileSync(join(ROOT, file), "utf8").replaceAll(/\/\*.*?\*\//gs, "");
        for (const [, path = ""] of text.matchAll(/(?:from|import\(|import)\s*"(\.[^"]+)"/g)) {
          // The build makes the page's files.
          if (!path.endsWith(".txt")) written.add(`${file} ${normalize(join(dirname(file), path))}`);
        }
      }
    }
    expect(written.size).toBeGreaterThan(1000);
    expect([...written].filter((one) => !seen.has(one))).toEqual([]);
  });
});

interface Module {
  readonly source: string;
  readonly dependencies: readonly { readonly resolved: string }[];
}

function modulesOf(found: unknown): readonly Module[] {
  if (typeof found !== "object" || found === null || !("modules" in found) || !Array.isArray(found.modules)) throw new Error("no modules");
  return found.modules;
}
