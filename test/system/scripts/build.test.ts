import { createHash } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const NOT_BUILT_FROM = [".git", ".cache", "dist", "node_modules", "test", "docs"];

it("L16: two builds of one tree, in different places, are the same executable", () => {
  const digests = [1, 2].map(() => {
    const tree = mkdtempSync(join(tmpdir(), "tortie-build-"));
    try {
      for (const name of readdirSync(".")) {
        if (!NOT_BUILT_FROM.includes(name)) cpSync(name, join(tree, name), { recursive: true });
      }
      symlinkSync(resolve("node_modules"), join(tree, "node_modules"));
      const build = Bun.spawnSync(["bash", "scripts/build"], { cwd: tree });
      expect(build.stderr.toString()).toBe("");
      return createHash("sha256")
        .update(readFileSync(join(tree, "dist/bin/tortie")))
        .digest("hex");
    } finally {
      rmSync(tree, { recursive: true, force: true });
    }
  });
  expect(digests[0]).toBe(digests[1]);
});
