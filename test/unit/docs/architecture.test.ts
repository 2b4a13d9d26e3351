import { existsSync, readFileSync } from "node:fs";

describe("The newcomer's map", () => {
  const files = [...readFileSync("docs/project/architecture.md", "utf8").matchAll(/^\| \d+ \| `([^`]+)` \|/gm)].map(
    ([, file = ""]) => file,
  );

  it("names at most 30 files on the way of an ADD, each of which is there", () => {
    expect(files.length).toBeGreaterThan(20);
    expect(files.length).toBeLessThanOrEqual(30);
    expect(files.filter((file) => !existsSync(file))).toEqual([]);
  });
});
