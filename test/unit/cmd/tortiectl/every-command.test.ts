/** What holds for all commands of tortiectl: each has --json, and each is offered while a command line is typed. */
import picocolors from "picocolors";
import { tortiectl } from "../../../../cmd/tortiectl/main.ts";

async function output(argv: readonly string[]): Promise<string> {
  const lines: string[] = [];
  const terminal = {
    out: (line: string) => lines.push(line),
    err: (line: string) => lines.push(line),
    colors: picocolors.createColors(false),
  };
  expect(await tortiectl(argv, terminal)).toBe(0);
  return lines.join("\n");
}

/** Names of the commands that the help of `path` lists. */
async function commandsOf(path: readonly string[]): Promise<readonly string[]> {
  const [, section = ""] = (await output([...path, "--help"])).split(/^Commands:$/m);
  const line = new RegExp(`^  tortiectl ${[...path, "([a-z-]+)"].join(" ")}`, "gm");
  return [...section.matchAll(line)].map(([, name = ""]) => name);
}

/** Every command that does something, by walking the help. */
async function leaves(path: readonly string[] = []): Promise<readonly (readonly string[])[]> {
  const names = await commandsOf(path);
  if (names.length === 0) return [path];
  return (await Promise.all(names.map((name) => leaves([...path, name])))).flat();
}

describe("tortiectl", () => {
  it("has --json in every command but the one that prints a script", async () => {
    const all = await leaves();
    expect(all).toEqual(expect.arrayContaining([["cni", "add"], ["ipam", "show"], ["validate"], ["nat", "remove"], ["node", "status"]]));
    expect(all.length).toBeGreaterThan(15);
    const without: string[] = [];
    for (const path of all) if (!/--json\b/.test(await output([...path, "--help"]))) without.push(path.join(" "));
    expect(without).toEqual(["completion"]);
  });

  it("prints its version as JSON", async () => {
    expect(JSON.parse(await output(["version", "--json"]))).toEqual({ version: await output(["version"]) });
  });
});
