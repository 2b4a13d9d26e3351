/** Describes `tortiectl ipam`, which is about the addresses of a datastore. Loads what a verb does when it is called. */
import type { Argv, CommandModule } from "yargs";
import {
  AGENT_OPTIONS,
  agentOptions,
  type CommandContext,
  flagOption,
  group,
  JSON_OUTPUT,
  numberOption,
  OUTPUT_OPTIONS,
  outputOf,
  repeatedOption,
  STORE_OPTIONS,
  textOption,
} from "../options.ts";
import { shown } from "../terminal.ts";

export function ipamCommand(context: CommandContext): CommandModule {
  return group("ipam", "Show, check and change the addresses that a datastore holds", (argv) => {
    addShow(argv, context);
    addCheck(argv, context);
    addRelease(argv, context);
    addConfigure(argv, context);
    addHistory(argv, context);
  });
}

function addShow(argv: Argv, context: CommandContext): void {
  argv.command({
    command: "show",
    describe: "How full the pools are, and who holds an address",
    builder: (command) =>
      storeOptions(command)
        .options(OUTPUT_OPTIONS)
        .option("blocks", flagOption("Each block with its owner and a map of its addresses"))
        .option("ip", textOption("Who has this address"))
        .example([
          ["$0 ipam show --blocks --kubeconfig ~/.kube/config", "How full a cluster's pools and blocks are"],
          ["$0 ipam show --ip 10.244.9.3", "Who has an address of the local datastore"],
        ]),
    handler: async (given) => {
      const { show } = await import("./show.ts");
      const options = { ...given, output: outputOf(given), blocks: given.blocks || given.output === "wide" };
      context.finish(await shown(context.terminal, given.watch, (on) => show(options, on)));
    },
  });
}

function addCheck(argv: Argv, context: CommandContext): void {
  argv.command({
    command: "check",
    describe: "Name every inconsistency between blocks, affinities, handles and endpoints; exit status 1 when there is one",
    builder: (command) =>
      lockOption(storeOptions(command))
        .option("repair", flagOption("Mend what can be mended; without it nothing is changed"))
        .option("grace", numberOption("Seconds for which an address may have no endpoint yet", 900))
        .option("strict", flagOption("Also judge addresses of nodes that record no endpoint at all"))
        .option("settle", numberOption("Seconds before the second look, for operations under way to end", 1))
        .example("$0 ipam check --repair --kubeconfig ~/.kube/config", "Mend what contradicts itself"),
    handler: async (given) => context.finish(await (await import("./check.ts")).checkStore(given, context.terminal)),
  });
}

function addRelease(argv: Argv, context: CommandContext): void {
  argv.command({
    command: "release",
    describe: "Release addresses at once, whoever holds them",
    builder: (command) =>
      lockOption(storeOptions(command))
        .option("ip", repeatedOption("This address, may be repeated"))
        .option("handle", repeatedOption("All addresses of this handle, may be repeated"))
        .option("container", repeatedOption("All addresses of this container id, in any network"))
        .example("$0 ipam release --ip 10.244.9.3 --ip 10.244.9.4", "Two addresses of containers that are gone"),
    handler: async (given) => context.finish(await (await import("./release.ts")).releaseAddresses(given, context.terminal)),
  });
}

function addConfigure(argv: Argv, context: CommandContext): void {
  argv.command({
    command: "configure",
    describe: "Show or change how addresses are given out, in the whole cluster",
    builder: (command) =>
      storeOptions(command)
        .option("strict-affinity", { type: "boolean", describe: "Nodes take addresses from their own blocks only" })
        .option("auto-allocate-blocks", { type: "boolean", describe: "Nodes claim blocks when they need them" })
        .option("max-blocks-per-host", {
          type: "number",
          requiresArg: true,
          describe: "Blocks of each family that a node may own; 0 is the default of 20",
        })
        .option("ip-cooldown-seconds", { type: "number", requiresArg: true, describe: "How long a released address rests, 0 to 1200" })
        .example("$0 ipam configure --strict-affinity --max-blocks-per-host 4", "No node borrows, and none owns more than four blocks"),
    handler: async (given) => context.finish(await (await import("./configure.ts")).configureStore(given, context.terminal)),
  });
}

function addHistory(argv: Argv, context: CommandContext): void {
  argv.command({
    command: "history [address]",
    describe: "Who had an address of this host from when to when, also those that are gone; the agent notes it",
    builder: (command) =>
      command
        .positional("address", { type: "string", describe: "Default: all, the newest first" })
        .options(AGENT_OPTIONS)
        .option("at", textOption("Only who had it then, such as 2026-11-26T09:30:00Z"))
        .example("$0 ipam history 10.244.9.3", "Everybody who had the address"),
    handler: async (given) => {
      const { ipamHistory } = await import("./history.ts");
      context.finish(await ipamHistory({ ...agentOptions(given), address: given.address, at: given.at }, context.terminal));
    },
  });
}

function storeOptions(command: Argv) {
  return command
    .options(STORE_OPTIONS)
    .option("json", JSON_OUTPUT)
    .conflicts({ datastore: ["conf", "kubeconfig"], kubeconfig: "conf" });
}

function lockOption<T>(command: Argv<T>) {
  return command.option("lock-file", {
    type: "string",
    describe: "Lock that the plugins of this node take turns by; default: that of the configuration, /var/run/calico/ipam.lock",
  });
}
