import type { Argv, CommandModule } from "yargs";
import { AGENT_OPTIONS, agentOptions, type CommandContext, flagOption, group, OUTPUT_OPTIONS, outputOf } from "../options.ts";
import { shown } from "../terminal.ts";

export function nodeCommand(context: CommandContext): CommandModule {
  return group("node", "Ask the agent of this node, tortie-node", (argv) => {
    argv.options(AGENT_OPTIONS);
    addShown(argv, context, "status", "What the agent does, waits for and has found", "Follow it, for instance through an upgrade");
    addHealth(argv, context);
    addShown(argv, context, "endpoints", "The endpoints of this node", "Follow pods that come and go");
    addEndpoint(argv, context);
    addPlain(argv, context, "config", "How the agent runs");
    addPlain(argv, context, "metrics", "The agent's figures, as Prometheus reads them");
    addLogLevel(argv, context);
  });
}

function addShown(
  argv: Argv,
  { terminal, finish }: CommandContext,
  name: "status" | "endpoints",
  describe: string,
  followed: string,
): void {
  argv.command({
    command: name,
    describe,
    builder: (command) => command.options(OUTPUT_OPTIONS).example(`$0 node ${name} --watch`, followed),
    handler: async (given) => {
      const commands = await import("./run.ts");
      const options = { ...agentOptions(given), output: outputOf(given), watch: given.watch };
      finish(await shown(terminal, options.watch, (on) => commands[name](options, on)));
    },
  });
}

function addHealth(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "health",
    describe: "Whether the agent is ready, or with --live alive: for probes",
    builder: (command) =>
      command.option("live", flagOption("Ask whether the process is alive")).example("$0 node health --live", "As a liveness probe asks"),
    handler: async (given) => finish(await (await import("./run.ts")).health({ ...agentOptions(given), live: given.live }, terminal)),
  });
}

function addEndpoint(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "endpoint <id>",
    describe: "One endpoint with its history",
    builder: (command) =>
      command
        .positional("id", {
          type: "string",
          demandOption: true,
          describe:
            "Number, address, NAMESPACE/POD or POD, container id or how it alone begins, host interface; or a name of docs/reference/api.md",
        })
        .example([
          ["$0 node endpoint default/web", "A pod of this node"],
          ["$0 node endpoint 10.244.9.3 --json", "Who has the address here"],
        ]),
    handler: async (given) => finish(await (await import("./run.ts")).endpoint({ ...agentOptions(given), id: given.id }, terminal)),
  });
}

function addPlain(argv: Argv, { terminal, finish }: CommandContext, name: "config" | "metrics", describe: string): void {
  argv.command({
    command: name,
    describe,
    handler: async (given) => finish(await (await import("./run.ts"))[name](agentOptions(given), terminal)),
  });
}

function addLogLevel(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "log-level [level]",
    describe: "Show how much the agent logs, or change it until it ends",
    builder: (command) =>
      command
        .positional("level", { choices: ["debug", "info", "error"] as const, describe: "Default: show it" })
        .example("$0 node log-level debug", "More, until the agent ends"),
    handler: async (given) => finish(await (await import("./run.ts")).logLevel({ ...agentOptions(given), level: given.level }, terminal)),
  });
}
