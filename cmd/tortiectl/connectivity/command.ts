/** Describes `tortiectl connectivity`. Loads what it does when one of its verbs is called. */
import type { Argv, CommandModule } from "yargs";
import { CHECKS } from "../../../doctor/connectivity/world.ts";
import { type CommandContext, group, JSON_OUTPUT, listOption, numberOption, textOption } from "../options.ts";

/** Leads to where a test runs. */
const PLACE = {
  kubeconfig: textOption("Test a cluster by this file, default $KUBECONFIG; without one, this host"),
  conflist: textOption("On a host: the list; default: the first one of /etc/cni/net.d"),
  "cni-path": textOption("On a host: folders of plugins, separated by ':'; default as for tortiectl cni"),
  "cache-dir": { ...textOption("On a host: where results of ADD are kept"), default: "/var/lib/cni" },
  json: JSON_OUTPUT,
} as const;

export function connectivityCommand(context: CommandContext): CommandModule {
  return group("connectivity", "Try the network with pods of its own, and say what a failure most probably is", (argv) => {
    addTest(argv, context);
    addClean(argv, context);
    addParts(argv, context);
  });
}

function addTest(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "test",
    describe: "Make pods, have them reach each other, their hosts and what is outside, and remove them",
    builder: (command) =>
      command
        .options(PLACE)
        .option("node", listOption("In a cluster: a node, may be repeated; default: the first two that are Ready"))
        .option("image", textOption("In a cluster: an image with tortiectl; default: the agent's"))
        .option("only", { choices: CHECKS, array: true, describe: "A check that is wanted, may be repeated; default: all" })
        .option("egress", listOption("ADDRESS:PORT of something outside; default: the API server, or the host's name servers"))
        .option("dns-server", textOption("ADDRESS[:PORT] of a name server; default: the pods' own"))
        .option("dns-name", textOption("A name to look up"))
        .option("timeout", numberOption("Seconds for one answer", 4))
        .option("pods-timeout", numberOption("In a cluster: seconds until the pods run", 90))
        .example([
          ["sudo $0 connectivity test", "On a host, by its own list"],
          ["$0 connectivity test --kubeconfig ~/.kube/config --node n1 --node n2", "In a cluster, between two nodes"],
          ["$0 connectivity test --only path-mtu --only other-node", "Some of it"],
        ])
        .epilogue("Exit status 0: nothing failed; 1: something did. Each check: docs/how-to/test-connectivity.md"),
    handler: async (given) => finish(await (await import("./run.ts")).test(given, terminal)),
  });
}

function addClean(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "clean",
    describe: "Remove what a killed test has left; in a cluster the pods of a test that still runs too",
    builder: (command) => command.options(PLACE).example("$0 connectivity clean", "After a test that was killed"),
    handler: async (given) => finish(await (await import("./run.ts")).clean(given, terminal)),
  });
}

/** What the test starts in its pods; nobody types it. */
function addParts(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "serve",
    describe: false,
    builder: (command) =>
      command
        .option("name", { type: "string", demandOption: true, requiresArg: true })
        .option("ports", { type: "string", demandOption: true, requiresArg: true })
        .option("until-input-ends", { type: "boolean", default: false }),
    handler: async (given) => finish(await (await import("./parts.ts")).serve(given, terminal)),
  });
  argv.command({
    command: "probe <request>",
    describe: false,
    builder: (command) =>
      command.positional("request", { type: "string", demandOption: true }).option("reply", { type: "string", requiresArg: true }),
    handler: async (given) => finish(await (await import("./parts.ts")).probe(given, terminal)),
  });
}
