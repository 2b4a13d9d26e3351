/** The operator's command: reads the command line; each subcommand's code is loaded only when it is called. */
import yargs from "yargs";
import { refuseRuntimeVariables } from "../../lib/system/runtime-environment.ts";
import { VERSION } from "../version.ts";
import { cniCommand } from "./cni/options.ts";
import { datastoreCommand } from "./datastore/options.ts";
import { installCommand, uninstallCommand } from "./install/options.ts";
import { ipamCommand } from "./ipam/options.ts";
import { nodeCommand } from "./node/options.ts";
import { type CommandContext, processTerminal, reportError, type Terminal, UsageError } from "./terminal.ts";
import { validateCommand } from "./validate/options.ts";
import { STANDARD_INPUT } from "./validate/standard-input.ts";

/**
 * Runs one command line.
 * @param argv without the program's name
 * @returns exit status: 0 done, 1 failed, 2 the command line is wrong
 */
export async function tortiectl(argv: readonly string[], terminal: Terminal = processTerminal()): Promise<number> {
  let exit = 0;
  const context: CommandContext = {
    terminal,
    finish: (status) => {
      exit = status;
    },
  };
  // yargs drops a lone "-" among the arguments that a command names.
  const line = argv.map((argument) => (argument === "-" && argv[0] === "validate" ? STANDARD_INPUT : argument));
  const parser = yargs(line)
    .scriptName("tortiectl")
    .locale("en")
    .usage("$0 <command>\n\nTries, inspects and maintains the tortie container network on this machine.")
    .command(cniCommand(context))
    .command(ipamCommand(context))
    .command(datastoreCommand(context))
    .command(nodeCommand(context))
    .command(installCommand(context))
    .command(uninstallCommand(context))
    .command(validateCommand(context))
    .command("nat", "Masquerading of the traffic that leaves the pools", (nat) =>
      nat
        .command(
          "remove",
          "Remove tortie's nftables table; the next ADD that needs it makes it again",
          (command) => command.option("json", JSON_OUTPUT),
          async ({ json }) => context.finish(await (await import("./nat-remove.ts")).natRemove(terminal, json)),
        )
        .demandCommand(1, "nat: which command? (remove)"),
    )
    .command("routes", "Routes to other nodes", (routes) =>
      routes
        .command(
          "remove",
          "Remove the routes and VXLAN devices that an agent has made; one that runs with --node-routes makes them again",
          (command) => command.option("json", JSON_OUTPUT),
          async ({ json }) => context.finish(await (await import("./routes-remove.ts")).routesRemove(terminal, json)),
        )
        .demandCommand(1, "routes: which command? (remove)"),
    )
    .command(
      "version",
      "Print the version",
      (command) => command.option("json", JSON_OUTPUT),
      ({ json }) => terminal.out(json ? JSON.stringify({ version: VERSION }) : VERSION),
    )
    .completion("completion", "Print a script for bash or zsh that completes commands and options")
    .demandCommand(1, "which command? tortiectl --help lists them")
    .recommendCommands()
    .strict()
    .version(VERSION)
    .help()
    .alias("help", "h")
    .wrap(null)
    .exitProcess(false)
    .fail((message, error) => {
      throw error ?? new UsageError(message);
    });
  try {
    refuseRuntimeVariables(process.env);
    // With a callback, yargs hands over its help text instead of writing it.
    await parser.parseAsync(line, {}, (_error, _arguments, output) => {
      if (output !== "") terminal.out(output);
    });
    return exit;
  } catch (error) {
    if (!isUsageError(error)) return reportError(terminal, error);
    terminal.err(`tortiectl: ${error.message}; --help shows the usage`);
    return 2;
  }
}

const JSON_OUTPUT = { type: "boolean", default: false, describe: "Print JSON" } as const;

/** yargs throws its own class, named YError, for what it finds wrong while a command is parsed. */
function isUsageError(error: unknown): error is Error {
  return error instanceof UsageError || (error instanceof Error && error.name === "YError");
}
