/**
 * Runs `kubectl tortie …`: a program that is in PATH as kubectl-tortie (kubectl's plugins). Asks the API server and the agents' pods, and
 * nothing of this machine, so it runs wherever kubectl does; what needs a node says so.
 */
import { homedir } from "node:os";
import { join } from "node:path";
import type { Argv } from "yargs";
import { TortieError } from "../../lib/errors/errors.ts";
import { isThere } from "../../lib/system/files.ts";
import { addClusterCommands } from "./cluster/command.ts";
import { validateCommand } from "./commands.ts";
import { identityCommand } from "./identity/command.ts";
import { ipamCommand } from "./ipam/command.ts";
import { type Program, runLine } from "./line.ts";
import type { CommandContext } from "./options.ts";
import { processTerminal, reportError, type Terminal } from "./terminal.ts";

const KUBECTL_TORTIE: Program = {
  name: "kubectl tortie",
  describe: "Shows the tortie container network of a cluster, and asks the agents of its nodes.",
  commands: commandsOf,
};

/** Are commands of `tortiectl` that look at the kernel or the files of a node. */
const OF_A_NODE = ["bundle", "cni", "connectivity", "datastore", "install", "nat", "node", "policy", "repair", "routes", "ui", "uninstall"];

/** @param argv without the program's name */
export async function kubectlTortie(argv: readonly string[], on: Terminal = processTerminal()): Promise<number> {
  const [first = ""] = argv;
  if (OF_A_NODE.includes(first)) {
    const message = `${first} is about one node: it needs Linux, and the node's kernel or files`;
    return reportError({ ...on, program: KUBECTL_TORTIE.name }, new TortieError("node-needed", message));
  }
  // `ipam` and `identity` go by the variable, where kubectl goes by its file.
  const file = join(homedir(), ".kube", "config");
  const isInPod = (process.env.KUBERNETES_SERVICE_HOST ?? "") !== "" && !isThere(file);
  if (!isInPod) process.env.KUBECONFIG ||= file;
  return runLine(KUBECTL_TORTIE, argv, on);
}

function commandsOf(parser: Argv, context: CommandContext): Argv {
  return addClusterCommands(parser, context)
    .command(ipamCommand(context))
    .command(identityCommand(context))
    .command(validateCommand(context));
}
