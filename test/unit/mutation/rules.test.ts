import { applied, mutationsOf, type Rule } from "../../mutation/rules.ts";
import { shuffled } from "../../mutation/shuffled.ts";

/** The sources that one rule makes of another. */
function made(rule: Rule, source: string): readonly string[] {
  return mutationsOf(source)
    .filter((mutation) => mutation.rule === rule)
    .map((mutation) => applied(source, mutation));
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
  it("is the same for the same seed, another one for another, and has each once", () => {
    const all = Array.from({ length: 50 }, (_, index) => index);
    expect(shuffled(all, 7)).toEqual(shuffled(all, 7));
    expect(shuffled(all, 7)).not.toEqual(shuffled(all, 8));
    expect([...shuffled(all, 7)].sort((a, b) => a - b)).toEqual(all);
  });
});
