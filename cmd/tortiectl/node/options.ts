/** The command line of `tortiectl node`; what it does is in `command.ts`, loaded when one of these is called. */
import type { Argv, CommandModule } from "yargs";
import { DEFAULT_SOCKET } from "../../../handover/run-directory.ts";
import { OUTPUT_OPTIONS, type Output, outputOf, shown } from "../output.ts";
import type { CommandContext } from "../terminal.ts";

export interface NodeOptions {
  readonly socket: string;
  readonly json: boolean;
}

export interface EndpointOptions extends NodeOptions {
  readonly id: string;
}

export interface ListOptions extends NodeOptions {
  readonly output: Output;
  readonly watch: boolean;
}

export interface LevelOptions extends NodeOptions {
  /** `undefined`: it is shown. */
  readonly level: string | undefined;
}

export interface HealthOptions extends NodeOptions {
  /** Whether the process is alive, not whether it can add pods. */
  readonly live: boolean;
}

type Command = typeof import("./command.ts");

/** `tortiectl node <verb>`: the agent of this node, over its socket. */
export function nodeCommand(context: CommandContext): CommandModule {
  return {
    command: "node",
    describe: "Ask the agent of this node, tortie-node",
    builder: (argv) => {
      withOptions(argv);
      list(argv, context, "status", "What the agent does, waits for and has found", "Follow it, for instance through an upgrade");
      argv.command(
        "health",
        "Whether the agent is ready, or with --live alive: for probes",
        (command) =>
          command
            .option("live", { type: "boolean", default: false, describe: "Ask whether the process is alive" })
            .example("$0 node health --live", "As a liveness probe asks"),
        async (given) =>
          context.finish(await (await import("./command.ts")).health({ ...optionsOf(given), live: given.live }, context.terminal)),
      );
      list(argv, context, "endpoints", "The endpoints of this node", "Follow pods that come and go");
      argv.command(
        "endpoint <id>",
        "One endpoint with its history",
        (command) =>
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
        async (given) =>
          context.finish(await (await import("./command.ts")).endpoint({ ...optionsOf(given), id: given.id }, context.terminal)),
      );
      simple(argv, context, "config", "How the agent runs", "config");
      simple(argv, context, "metrics", "The agent's figures, as Prometheus reads them", "metrics");
      argv.command(
        "log-level [level]",
        "Show how much the agent logs, or change it until it ends",
        (command) =>
          command
            .positional("level", { choices: ["debug", "info", "error"] as const, describe: "Default: show it" })
            .example("$0 node log-level debug", "More, until the agent ends"),
        async (given) =>
          context.finish(await (await import("./command.ts")).logLevel({ ...optionsOf(given), level: given.level }, context.terminal)),
      );
      return argv.demandCommand(1);
    },
    handler: () => undefined,
  };
}

function list(argv: Argv, context: CommandContext, name: "status" | "endpoints", describe: string, followed: string): void {
  argv.command(
    name,
    describe,
    (command) => command.options(OUTPUT_OPTIONS).example(`$0 node ${name} --watch`, followed),
    async (given) => {
      const commands: Command = await import("./command.ts");
      const { terminal } = context;
      const options = { ...optionsOf(given), output: outputOf({ output: given.output, json: given.json }), watch: given.watch };
      context.finish(await shown(terminal, options.watch, (on) => commands[name](options, on)));
    },
  );
}

function simple(argv: Argv, context: CommandContext, name: string, describe: string, command: "config" | "metrics"): void {
  argv.command(
    name,
    describe,
    () => undefined,
    async (given) => {
      const commands: Command = await import("./command.ts");
      context.finish(await commands[command](optionsOf(given), context.terminal));
    },
  );
}

function withOptions(argv: Argv): void {
  argv
    .option("socket", {
      type: "string",
      describe: `The agent's socket; default: TORTIE_SOCK, else ${DEFAULT_SOCKET}`,
      requiresArg: true,
    })
    .option("json", { type: "boolean", default: false, describe: "Print the agent's answer as JSON" });
}

/** yargs has judged the types. */
function optionsOf(given: Readonly<Record<string, unknown>>): NodeOptions {
  const socket = typeof given.socket === "string" && given.socket !== "" ? given.socket : process.env.TORTIE_SOCK || DEFAULT_SOCKET;
  return { socket, json: given.json === true };
}
