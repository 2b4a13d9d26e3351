/** docs/architecture.md leads through files that are there, ten a way at most, and is what a newcomer is shown first. */
import { existsSync, readFileSync } from "node:fs";

const page = readFileSync("docs/architecture.md", "utf8");

describe("The map of the house", () => {
  it.each(["The way of an ADD", "The way of a DEL", "A restart of the agent", "A change of a pool"])(
    "%s: names at most ten files, each of which is there",
    (way) => {
      const [, text = ""] = page.split(`## ${way}\n`);
      const [table = ""] = text.split("\n## ");
      const files = [...table.matchAll(/^\| \d+ \| `([^`]+)` \|/gm)].map(([, file = ""]) => file);
      expect(files.length).toBeGreaterThan(5);
      expect(files.length).toBeLessThanOrEqual(10);
      expect(files.filter((file) => !existsSync(file))).toEqual([]);
    },
  );

  it.each(["README.md", "CONTRIBUTING.md"])("is the first page of the project's own that %s sends a reader of the code to", (path) => {
    const links = [...readFileSync(path, "utf8").matchAll(/\]\((docs\/(?:project\/|architecture)[^)#]+)/g)].map(([, link]) => link);
    expect(links[0]).toBe("docs/architecture.md");
  });
});
