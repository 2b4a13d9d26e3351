/** Reads the operator's command line, and loads each subcommand's code only when it is called. */
import { homedir } from "node:os";
import { join } from "node:path";
import yargs from "yargs";
import { refuseRuntimeVariables } from "../../lib/system/privileges.ts";
import { VERSION } from "../output.ts";
import { bundleCommand } from "./bundle/command.ts";
import { cniCommand } from "./cni/command.ts";
import { datastoreCommand, installCommand, natCommand, routesCommand, uninstallCommand, validateCommand } from "./commands.ts";
import { ASKS, complete, completionCommand } from "./completion.ts";
import { connectivityCommand } from "./connectivity/command.ts";
import { doctorCommand } from "./doctor/command.ts";
import { explainCommand } from "./explain/command.ts";
import { identityCommand } from "./identity/command.ts";
import { ipamCommand } from "./ipam/command.ts";
import { nodeCommand } from "./node/command.ts";
import { policyCommand } from "./policy/command.ts";
import { repairCommand } from "./repair/command.ts";
import {
  type CommandContext,
  JSON_OUTPUT,
  NO_COLORS,
  processTerminal,
  reportError,
  STANDARD_INPUT,
  type Terminal,
  UsageError,
} from "./terminal.ts";
import { explainUsage } from "./usage.ts";

/**
 * Runs one command line.
 * @param argv without the program's name
 * @returns exit status: 0 done, 1 failed, 2 the command line is wrong
 */
export async function tortiectl(argv: readonly string[], on: Terminal = processTerminal()): Promise<number> {
  const terminal = asksForJson(argv) ? { ...on, json: true } : on;
  try {
    if (argv[0] === ASKS) return await printCompletions(argv.slice(2), terminal);
    refuseRuntimeVariables(process.env);
    // Without a word there is nothing to refuse: what can be done is shown.
    return await run(argv.length === 0 ? ["--help"] : argv, terminal);
  } catch (error) {
    return reportError(terminal, error instanceof UsageError ? await explainUsage(error.message, argv, helpOf) : error);
  }
}

/** Looks before the line is parsed: errors of the line itself have the same form. */
function asksForJson(argv: readonly string[]): boolean {
  return argv.some(
    (token, index) => token === "--json" || token === "-o=json" || token === "-ojson" || (token === "json" && argv[index - 1] === "-o"),
  );
}

/** @throws UsageError, and what the command throws */
async function run(argv: readonly string[], terminal: Terminal): Promise<number> {
  let exit = 0;
  const context: CommandContext = {
    terminal,
    finish: (status) => {
      exit = status;
    },
  };
  // yargs drops a lone "-" among the arguments that a command names.
  const line = argv.map((argument) => (argument === "-" && argv[0] === "validate" ? STANDARD_INPUT : argument));
  try {
    // With a callback, yargs hands over its help text instead of writing it.
    await parserOf(line, context).parseAsync(line, {}, (_error, _arguments, output) => {
      if (output !== "") terminal.out(output);
    });
  } catch (error) {
    throw isUsageError(error) ? new UsageError(error.message) : error;
  }
  return exit;
}

/**
 * Runs `kubectl tortie …`, where this program is in PATH as kubectl-tortie, about the cluster that kubectl means by itself.
 * @param argv without the program's name
 */
export function kubectlTortie(argv: readonly string[]): Promise<number> {
  process.env.KUBECONFIG ||= join(homedir(), ".kube", "config");
  return tortiectl(argv);
}

async function helpOf(path: readonly string[]): Promise<string> {
  const lines: string[] = [];
  await run([...path, "--help"], { out: (line) => void lines.push(line), err: () => undefined, colors: NO_COLORS });
  return lines.join("\n");
}

async function printCompletions(words: readonly string[], terminal: Terminal): Promise<number> {
  const found = await complete(words, helpOf);
  if (found.length > 0) terminal.out(found.join("\n"));
  return 0;
}

function parserOf(line: readonly string[], context: CommandContext) {
  const { terminal } = context;
  return yargs(line)
    .scriptName("tortiectl")
    .locale("en")
    .usage("$0 <command>\n\nTries, inspects and maintains the tortie container network on this machine.")
    .command(doctorCommand(context))
    .command(bundleCommand(context))
    .command(cniCommand(context))
    .command(ipamCommand(context))
    .command(datastoreCommand(context))
    .command(nodeCommand(context))
    .command(explainCommand(context))
    .command(repairCommand(context))
    .command(identityCommand(context))
    .command(policyCommand(context))
    .command(connectivityCommand(context))
    .command(installCommand(context))
    .command(uninstallCommand(context))
    .command(validateCommand(context))
    .command(natCommand(context))
    .command(routesCommand(context))
    .command(
      "version",
      "Print the version",
      (command) => command.option("json", JSON_OUTPUT),
      ({ json }) => terminal.out(json ? JSON.stringify({ version: VERSION }) : VERSION),
    )
    .command(completionCommand(context))
    .demandCommand(1)
    .strict()
    .version(VERSION)
    .help()
    .alias("help", "h")
    .wrap(terminal.columns ?? null)
    .exitProcess(false)
    .fail((message, error) => {
      throw error ?? new UsageError(message);
    });
}

/** Knows the errors of yargs, which throws its own class, named YError, for what it finds wrong while a command is parsed. */
function isUsageError(error: unknown): error is Error {
  return error instanceof UsageError || (error instanceof Error && error.name === "YError");
}
