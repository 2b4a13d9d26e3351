/** Reads the operator's command line, and loads each subcommand's code only when it is called. */
import type { Argv } from "yargs";
import { bundleCommand } from "./bundle/command.ts";
import { cniCommand } from "./cni/command.ts";
import { datastoreCommand, installCommand, natCommand, routesCommand, uninstallCommand, validateCommand } from "./commands.ts";
import { completionCommand } from "./completion.ts";
import { connectivityCommand } from "./connectivity/command.ts";
import { doctorCommand } from "./doctor/command.ts";
import { explainCommand } from "./explain/command.ts";
import { identityCommand } from "./identity/command.ts";
import { ipamCommand } from "./ipam/command.ts";
import { type Program, runLine } from "./line.ts";
import { nodeCommand } from "./node/command.ts";
import type { CommandContext } from "./options.ts";
import { policyCommand } from "./policy/command.ts";
import { repairCommand } from "./repair/command.ts";
import { processTerminal, type Terminal } from "./terminal.ts";
import { uiCommand } from "./ui/command.ts";

const TORTIECTL: Program = {
  name: "tortiectl",
  describe: "Tries, inspects and maintains the tortie container network on this machine.",
  commands: commandsOf,
};

/**
 * Runs one command line.
 * @param argv without the program's name
 * @returns exit status: 0 done, 1 failed, 2 the command line is wrong
 */
export function tortiectl(argv: readonly string[], on: Terminal = processTerminal()): Promise<number> {
  return runLine(TORTIECTL, argv, on);
}

function commandsOf(parser: Argv, context: CommandContext): Argv {
  return parser
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
    .command(uiCommand(context, tortiectl))
    .command(completionCommand(context));
}
