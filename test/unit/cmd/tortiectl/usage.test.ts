/** What a wrong command line gets, and what may come next on one that is being typed. */
import picocolors from "picocolors";
import { tortiectl } from "../../../../cmd/tortiectl/main.ts";
import { commandNamedBy, shapeOf } from "../../../../cmd/tortiectl/usage.ts";

async function run(...argv: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const terminal = { out: (line: string) => out.push(line), err: (line: string) => err.push(line), colors: picocolors.createColors(false) };
  const exit = await tortiectl(argv, terminal);
  return { exit, out: out.join("\n"), err: err.join("\n") };
}

const HELP = `tortiectl net join <list> <netns> [name]

Joins.

Positionals:
  list  A file  [string] [required]

Options:
  -h, --help    Show help  [boolean]
      --to      Where  [required] [choices: "local", "etcdv3"]
      --dry-run Nothing changes  [boolean] [default: false]`;

const GROUP = `tortiectl net

Commands:
  tortiectl net join <list> <netns> [name]  Joins
  tortiectl net leave                       Leaves

Options:
      --socket  Where  [string]`;

describe("the help of a command", () => {
  it("tells its options, which of them take a value, and what the value may be", () => {
    expect(shapeOf(HELP)).toEqual({
      usage: "tortiectl net join <list> <netns> [name]",
      commands: [],
      options: new Map([
        ["help", { short: "h", takesValue: false, isList: false, choices: [] }],
        ["to", { takesValue: true, isList: false, choices: ["local", "etcdv3"] }],
        ["dry-run", { takesValue: false, isList: false, choices: [] }],
      ]),
    });
    expect(shapeOf(GROUP).commands).toEqual(["join", "leave"]);
  });

  it("finds the command behind options and their values", async () => {
    const helpOf = async (path: readonly string[]) => (path.length === 0 ? GROUP : HELP);

    expect(await commandNamedBy(["--socket", "leave", "join", "--to", "local", "a", "--dry-run", "b"], helpOf)).toMatchObject({
      path: ["join"],
      words: ["a", "b"],
    });
  });
});

describe("a wrong command line", () => {
  it.each([
    [["cni", "ad", "x", "y"], 'there is no command "ad" of cni: did you mean tortiectl cni add?', "subcommand-unknown"],
    [["status"], "did you mean tortiectl cni status or tortiectl node status?", "subcommand-unknown"],
    [["nurse"], 'there is no command "nurse"\n  next  the commands are doctor, bundle, cni, ipam, datastore, node, ', "subcommand-unknown"],
    [["node", "--socket", "/x", "statsu"], "did you mean tortiectl node status?", "subcommand-unknown"],
    [["cni"], "cni: which command? (add, del, check, status, gc)", "argument-missing"],
    [["cni", "add", "list"], "NETNS is missing\n  next  tortiectl cni add CONFLIST NETNS", "argument-missing"],
    [["cni", "add"], "CONFLIST and NETNS are missing", "argument-missing"],
    [["cni", "add", "list", "blue", "--container-id"], "the value of --container-id is missing", "argument-missing"],
    [["datastore", "migrate"], "--from and --to are missing", "argument-missing"],
    [["validate"], "validate: which files?", "argument-missing"],
    [["ipam", "show", "--blcks"], "there is no option --blcks: did you mean --blocks?", "option-invalid"],
    [["install", "--bindir", "x"], "there is no option --bindir: did you mean --bin-dir?", "option-invalid"],
    [["ipam", "configure", "--no-strict-afinity"], "did you mean --strict-affinity?", "option-invalid"],
    [["ipam", "show", "extra"], 'one word too many: "extra"', "option-invalid"],
    [
      ["datastore", "migrate", "--from", "loca", "--to", "etcdv3"],
      '--from "loca": one of "local", "kubernetes", "etcdv3" is',
      "option-invalid",
    ],
    [["completion", "tcsh"], 'SHELL "tcsh": one of "bash", "zsh", "fish" is wanted', "option-invalid"],
    [["ipam", "show", "--ip", "foo"], '--ip "foo" is not an address', "option-invalid"],
    [["node", "list", "--socket", "/x", "--socket=/y"], "--socket is given twice, and only one can count", "option-invalid"],
    [["ipam", "show", "-o", "wide", "--output", "yaml"], "--output is given twice, and only one can count", "option-invalid"],
    [["repair", "node", "--yes", "--no-yes"], "--yes is given twice, and only one can count", "option-invalid"],
    [["explain", "ip", "10.1.2.3", "--netDir", "/x", "--net-dir", "/y"], "--net-dir is given twice", "option-invalid"],
  ])("%j: status 2, what is wrong and what would be right", async (argv, message, word) => {
    const { exit, out, err } = await run(...argv);

    expect({ exit, out }).toEqual({ exit: 2, out: "" });
    expect(err).toContain(message);
    expect(err.endsWith(`(${word})`)).toBe(true);
  });

  it.each([
    [["cni", "ad", "--json"], 2, "subcommand-unknown"],
    [["ipam", "show", "--json", "--ip", "foo"], 2, "option-invalid"],
    [["ipam", "show", "--json", "--datastore", "/nowhere/at-all.db"], 1, "datastore-unavailable"],
    [["node", "status", "--json", "--socket", "/nowhere/at-all.sock"], 1, "agent-unreachable"],
  ])("%j is answered in JSON, as it asks", async (argv, exit, word) => {
    const answer = await run(...argv);

    expect(answer).toMatchObject({ exit, err: "" });
    expect(JSON.parse(answer.out)).toEqual({ error: { word, message: expect.any(String), next: expect.any(String) } });
  });

  it("without a word shows what can be done", async () => {
    expect(await run()).toEqual(await run("--help"));
    expect(await run()).toMatchObject({ exit: 0, out: expect.stringContaining("tortiectl cni ") });
  });
});

describe("a command line that is being typed", () => {
  it.each([
    [["no"], ["node"]],
    [["node", "--socket", "/x", "s"], ["status"]],
    [["ipam", "show", "--bl"], ["--blocks"]],
    [
      ["datastore", "migrate", "--from", ""],
      ["local", "kubernetes", "etcdv3"],
    ],
  ])("%j may become %j", async (line, expected) => {
    const { out } = await run("--get-yargs-completions", "tortiectl", ...line);

    expect(out.split("\n")).toEqual(expected);
  });

  it.each([[["cni", "add", ""]], [["validate", ""]], [["ipam", "show", "--kubeconfig", ""]], [["cni", "add", "x", "--cache-dir", ""]]])(
    "%j is left to the shell, which offers files",
    async (line) => {
      expect(await run("--get-yargs-completions", "tortiectl", ...line)).toEqual({ exit: 0, out: "", err: "" });
    },
  );
});
