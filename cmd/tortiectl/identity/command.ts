import type { Argv, CommandModule } from "yargs";
import { DEFAULT_SOCKET } from "../../../handover/run-directory.ts";
import { AGENT_OPTIONS, type CommandContext, group, JSON_OUTPUT, OUTPUT_OPTIONS, outputOf, textOption } from "../options.ts";
import { shown } from "../terminal.ts";
import type { IdentitySource } from "./run.ts";

export function identityCommand(context: CommandContext): CommandModule {
  return group("identity", "The numbers of sets of labels", (argv) => {
    argv
      .option("socket", AGENT_OPTIONS.socket)
      .option("kubeconfig", textOption("Ask the API server and not the agent; default: KUBECONFIG, unless --socket is given"))
      .option("json", JSON_OUTPUT);
    addList(argv, context);
    addShow(argv, context);
  });
}

function addList(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "list",
    describe: "All identities of the cluster",
    builder: (command) => command.options(OUTPUT_OPTIONS).example("$0 identity list -o wide", "With the time of each"),
    handler: async (given) => {
      const { list } = await import("./run.ts");
      const options = { ...sourceOf(given), output: outputOf(given) };
      finish(await shown(terminal, given.watch, (on) => list(options, on)));
    },
  });
}

function addShow(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "show <number>",
    describe: "The labels that a number stands for, and the endpoints of this node that have it",
    builder: (command) =>
      command
        .positional("number", { type: "string", demandOption: true, describe: "As endpoints and drops show it" })
        .example("$0 identity show 1", "A reserved one: the host"),
    handler: async (given) =>
      finish(await (await import("./run.ts")).show({ ...sourceOf(given), number: given.number, json: given.json === true }, terminal)),
  });
}

/** Takes the options as they are: yargs has judged the types. */
function sourceOf(given: Readonly<Record<string, unknown>>): IdentitySource {
  const textOf = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);
  const socket = textOf(given.socket);
  const kubeconfig = textOf(given.kubeconfig) ?? (socket === undefined ? process.env.KUBECONFIG : undefined);
  return kubeconfig ? { kubeconfig } : { socket: socket ?? (process.env.TORTIE_SOCK || DEFAULT_SOCKET) };
}
