import { createHash } from "node:crypto";
import { cpSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { TemporaryDirectory } from "../../support/fixtures.ts";

const NOT_BUILT_FROM = [".git", ".cache", "dist", "node_modules", "test", "docs"];

it("L16: two builds of one tree, in different places, are the same executable", () => {
  const digests = [1, 2].map(() => {
    using tree = new TemporaryDirectory();
    for (const name of readdirSync(".")) {
      if (!NOT_BUILT_FROM.includes(name)) cpSync(name, join(tree.path, name), { recursive: true });
    }
    symlinkSync(resolve("node_modules"), join(tree.path, "node_modules"));
    const build = Bun.spawnSync(["bash", "scripts/build"], { cwd: tree.path });
    expect(build.stderr.toString()).toBe("");
    return createHash("sha256")
      .update(readFileSync(join(tree.path, "dist/bin/tortie")))
      .digest("hex");
  });
  expect(digests[0]).toBe(digests[1]);
});
