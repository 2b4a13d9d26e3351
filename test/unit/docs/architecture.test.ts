import { existsSync, readFileSync } from "node:fs";

describe("The newcomer's map", () => {
  const [, map = ""] = readFileSync("docs/project/design.md", "utf8").split("## 9. A newcomer's map\n");
  const files = [...map.matchAll(/^\| \d+ \| `([^`]+)` \|/gm)].map(([, file = ""]) => file);

  it("names at most 30 files on the way of an ADD, each of which is there", () => {
    expect(files.length).toBeGreaterThan(20);
    expect(files.length).toBeLessThanOrEqual(30);
    expect(files.filter((file) => !existsSync(file))).toEqual([]);
  });
});
