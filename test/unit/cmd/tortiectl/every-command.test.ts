/** What holds for all commands of tortiectl: each has --json, and examples that are right. */
import picocolors from "picocolors";
import { tortiectl } from "../../../../cmd/tortiectl/main.ts";
import { commandNamedBy, neededWords, shapeOf, twiceOf } from "../../../../cmd/tortiectl/usage.ts";

async function output(argv: readonly string[], columns?: number): Promise<string> {
  const lines: string[] = [];
  const terminal = {
    out: (line: string) => lines.push(line),
    err: (line: string) => lines.push(line),
    colors: picocolors.createColors(false),
    ...(columns !== undefined && { columns }),
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

  it("shows examples of each command that takes words or options of its own, and each names what there is", async () => {
    const without: string[] = [];
    for (const path of await leaves()) {
      const help = await output([...path, "--help"]);
      const [, examples = ""] = help.split(/^Examples:$/m);
      const lines = [...examples.matchAll(/^ {2}(?:.* )?<?\(?(tortiectl .*?)(?: {2,}.*|\).*| \| .*)$/gm)].map(([, line = ""]) =>
        line.split(" "),
      );
      if (lines.length === 0) without.push(path.join(" "));
      for (const [, ...words] of lines) {
        const named = await commandNamedBy(words, (of) => output([...of, "--help"]));
        expect(named.path).toEqual(path);
        const options = words.filter((word) => word.startsWith("--")).map((word) => word.slice(2));
        expect(options.filter((option) => !shapeOf(help).options.has(option))).toEqual([]);
        expect(named.words.length).toBeGreaterThanOrEqual(neededWords(named.shape).length);
      }
    }
    expect(without.sort()).toEqual(["nat remove", "node config", "node metrics", "routes remove", "routes show", "version"]);
  });

  it("takes each option of each command once, but for those that take a list and say so", async () => {
    const lists: string[] = [];
    for (const path of await leaves()) {
      const shape = shapeOf(await output([...path, "--help"]));
      for (const [name, { takesValue, isList }] of shape.options) {
        const once = takesValue ? [`--${name}`, "x"] : [`--${name}`];
        expect(twiceOf([...path, ...once], shape)).toBeUndefined();
        expect(twiceOf([...path, ...once, ...once], shape)).toEqual(
          isList ? undefined : expect.stringContaining(`--${name} is given twice`),
        );
        if (isList) lists.push(`${path.join(" ")} --${name}`);
      }
    }
    expect(lists.sort()).toEqual([
      "bundle --log",
      "cni add --ips",
      "cni add --port-mapping",
      "cni check --ips",
      "cni check --port-mapping",
      "cni del --ips",
      "cni del --port-mapping",
      "cni gc --valid",
      "connectivity test --egress",
      "connectivity test --node",
      "connectivity test --only",
      "install --bin-dir",
      "ipam release --container",
      "ipam release --handle",
      "ipam release --ip",
    ]);
  });

  it("breaks the lines of its help where the terminal ends", async () => {
    const widest = async (columns?: number) =>
      Math.max(...(await output(["cni", "add", "--help"], columns)).split("\n").map(({ length }) => length));
    expect(await widest(80)).toBeLessThanOrEqual(80);
    expect(await widest()).toBeGreaterThan(100);
  });

  it("prints its version as JSON", async () => {
    expect(JSON.parse(await output(["version", "--json"]))).toEqual({ version: await output(["version"]) });
  });
});
