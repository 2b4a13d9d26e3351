import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { candidatesOf, inOrderOf } from "../../mutation/candidates.ts";
import { Imports } from "../../mutation/related.ts";
import { applied, mutationsOf, type Rule } from "../../mutation/rules.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";

/** The sources that one rule makes of another. */
function made(rule: Rule, source: string): readonly string[] {
  return mutationsOf(source)
    .filter((mutation) => mutation.rule === rule)
    .map((mutation) => applied(source, mutation));
}

const tree = fresh(() => new TemporaryDirectory());

/** The imports of these files. */
function importsOf(texts: Readonly<Record<string, string>>): Imports {
  for (const [file, text] of Object.entries(texts)) {
    mkdirSync(join(tree.path, dirname(file)), { recursive: true });
    writeFileSync(join(tree.path, file), text);
  }
  return new Imports(tree.path, Object.keys(texts));
}

describe("A mutant made by rule", () => {
  it.each<[Rule, string, readonly string[]]>([
    ["comparison", "a < b;", ["a <= b;"]],
    ["comparison", 'x === "ü" || y;', ['x === "ü" && y;', 'x !== "ü" || y;']],
    ["comparison", "n - 1;", ["n + 1;"]],
    ["comparison", '"a" + b;', []],
    ["condition", "if (isSo) go();", ["if (true) go();", "if (false) go();"]],
    ["condition", "const c = a && b;", ["const c = a;", "const c = b;"]],
    ["call", "go(); await stay();", ["; await stay();", "go(); ;"]],
    ["call", 'log.info("x"); this.#log.error("y"); a = b;', []],
    ["call", "take(node.log);", [";"]],
    ["constant", "log.info(1); throw new StoreError(2);", []],
    ["await", "const a = await b();", ["const a = b();"]],
    ["lock", "{ using _held = directory.lock(); go(); }", ["{ ; go(); }"]],
    ["lock", "{ await using store = open(); }", []],
    ["arguments", "send(to, text, 1);", ["send(text, to, 1);"]],
    ["arguments", "same(a, a); one(a); Math.max(a, b);", []],
    [
      "constant",
      "wait(1000); const n = 5; const big = 2n; const is = true;",
      [
        "wait(1); const n = 5; const big = 2n; const is = true;",
        "wait(1000); const n = 6; const big = 2n; const is = true;",
        "wait(1000); const n = 5; const big = (2n + 1n); const is = true;",
        "wait(1000); const n = 5; const big = 2n; const is = false;",
      ],
    ],
    ["error", "if (bad) throw new Error();", ["if (bad) ;"]],
  ])("by the rule %s of %s", (rule, source, expected) => {
    expect(made(rule, `async function f() { ${source} }`)).toEqual(expected.map((one) => `async function f() { ${one} }`));
  });

  it("comes of no type, no import and no comment, and stands where it should behind letters of several bytes", () => {
    const source = '/** ä: a < b */\nimport { a } from "./a.ts";\ntype T = 1 | true;\nconst text = "ö" as "ö" | "x";\nconst n = a < 2;\n';
    expect(mutationsOf(source).map((mutation) => applied(source, mutation).split("\n").at(-2))).toEqual([
      "const n = a <= 2;",
      "const n = a < 3;",
    ]);
  });
});

describe("A sample", () => {
  const all = Array.from({ length: 50 }, (_, index) => ({ id: `mutant ${index}` }));

  it("is the same for the same seed, another one for another, and has each once", () => {
    expect(inOrderOf("7", all)).toEqual(inOrderOf("7", all));
    expect(inOrderOf("7", all)).not.toEqual(inOrderOf("8", all));
    expect(new Set(inOrderOf("7", all))).toEqual(new Set(all));
  });

  it("keeps its order when one of them is gone", () => {
    const [, ...rest] = all;
    expect(inOrderOf("7", rest)).toEqual(inOrderOf("7", all).filter((one) => one !== all[0]));
  });

  it("names a mutant by what it changes, wherever its line is", () => {
    const names = (source: string) => candidatesOf("lib/a.ts", source).map(({ id, line }) => [id, line]);
    const name = "lib/a.ts (comparison) a < b => a <= b in: const is = a < b;";
    expect(names("const is = a < b;\n\nconst is = a < b;")).toEqual([
      [name, 1],
      [`${name} #2`, 3],
    ]);
  });
});

describe("The tests of a mutant", () => {
  it("are those that import its file, the nearest first, by more than its types", () => {
    const imports = importsOf({
      "lib/a.ts": "export const a = 1;",
      "lib/b.ts": 'import { a } from "./a.ts"; export const b = a;',
      "test/unit/far.test.ts": 'import { b } from "../../lib/b.ts"; b;',
      "test/unit/near.test.ts": 'import { a } from "../../lib/a.ts"; a;',
      "test/unit/type.test.ts": 'import type { a } from "../../lib/a.ts";',
      "test/system/near.test.ts": 'import { a } from "../../lib/a.ts"; a;',
    });
    expect(imports.testsOf("lib/a.ts", "unit")).toEqual(["test/unit/near.test.ts", "test/unit/far.test.ts"]);
  });

  it("begin with those of its own folder, then those of its part of the tree, however many steps away", () => {
    const imports = importsOf({
      "lib/x/a.ts": "export const a = 1;",
      "lib/x/b.ts": 'import { a } from "./a.ts"; export const b = a;',
      "test/unit/agent/of-another.test.ts": 'import { a } from "../../../lib/x/a.ts"; a;',
      "test/unit/lib/of-its-part.test.ts": 'import { b } from "../../../lib/x/b.ts"; b;',
      "test/unit/lib/x/far.test.ts": 'import { b } from "../../../../lib/x/b.ts"; b;',
      "test/unit/lib/x/near.test.ts": 'import { a } from "../../../../lib/x/a.ts"; a;',
    });
    expect(imports.testsOf("lib/x/a.ts", "unit")).toEqual([
      "test/unit/lib/x/near.test.ts",
      "test/unit/lib/x/far.test.ts",
      "test/unit/lib/of-its-part.test.ts",
      "test/unit/agent/of-another.test.ts",
    ]);
  });

  it("are before all others those of its name and of the folder that mirrors its own, however far away", () => {
    const imports = importsOf({
      "lib/a.ts": "export const a = 1;",
      "lib/b.ts": 'import { a } from "./a.ts"; export const b = a;',
      "test/unit/other/near.test.ts": 'import { a } from "../../../lib/a.ts"; a;',
      "test/unit/lib/flow.test.ts": 'import { b } from "../../../lib/b.ts"; b;',
      "test/unit/other/a.test.ts": 'import { b } from "../../../lib/b.ts"; b;',
    });
    expect(imports.testsOf("lib/a.ts", "unit")).toEqual([
      "test/unit/other/a.test.ts",
      "test/unit/lib/flow.test.ts",
      "test/unit/other/near.test.ts",
    ]);
  });
});
