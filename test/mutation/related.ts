/** Which tests reach a file by their imports, in the order of how much they should have to say of it. */
import { readFileSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";

const TRANSPILER = new Bun.Transpiler({ loader: "ts" });

export class Imports {
  /** File → those that import it, for more than its types. */
  readonly #importers = new Map<string, string[]>();

  /** @param files below `root` */
  constructor(root: string, files: readonly string[]) {
    for (const file of files.filter((name) => name.endsWith(".ts"))) {
      for (const { path } of TRANSPILER.scanImports(readFileSync(join(root, file), "utf8"))) {
        if (!path.startsWith(".")) continue;
        const imported = normalize(join(dirname(file), path));
        this.#importers.set(imported, [...(this.#importers.get(imported) ?? []), file]);
      }
    }
  }

  /**
   * @returns tests below `test/<suite>/` that run what is in `file`: those of its own name, those of the folder that mirrors its own, those
   * of its part of the tree, then others; among them those that come to it in the fewest steps first
   */
  testsOf(file: string, suite: string): readonly string[] {
    const reached = new Set([file]);
    // A set is walked in the order of its growth: those of each step before those of the next.
    for (const one of reached) for (const importer of this.#importers.get(one) ?? []) reached.add(importer);
    const tests = [...reached].filter((one) => one.startsWith(`test/${suite}/`) && one.endsWith(".test.ts"));
    const [part = ""] = file.split("/");
    const rank = (test: string) => {
      if (basename(test, ".test.ts") === basename(file, ".ts")) return 0;
      const near = [`test/${suite}/${dirname(file)}/`, `test/${suite}/${part}/`].findIndex((folder) => test.startsWith(folder));
      return near < 0 ? 3 : near + 1;
    };
    return tests.toSorted((one, other) => rank(one) - rank(other));
  }
}
