/** Describes the commands of `kubectl tortie` about the whole cluster. Loads what a command does when it is called. */
import type { Argv } from "yargs";
import {
  type CommandContext,
  flagOption,
  JSON_OUTPUT,
  milliseconds,
  numberOption,
  OUTPUT_OPTIONS,
  outputOf,
  repeatedOption,
  textOption,
} from "../options.ts";
import { shown } from "../terminal.ts";

export function addClusterCommands(parser: Argv, context: CommandContext): Argv {
  addDoctor(parser, context);
  addEndpoints(parser, context);
  addExplain(parser, context);
  addIp(parser, context);
  addBlocks(parser, context);
  return parser;
}

function addDoctor(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "doctor",
    describe: "Ask the cluster and, in its agents' pods, every node what is wrong and what to do next; exit status 1 where something is",
    builder: (command) =>
      asked(command)
        .option("node", { ...repeatedOption("Ask this node alone, may be repeated; default: all"), default: [] })
        .option("json", JSON_OUTPUT)
        .example("$0 doctor --node node-7", "One node, and what concerns the whole cluster"),
    handler: async ({ node, timeout, ...given }) => {
      const { doctor } = await import("./doctor.ts");
      finish(await doctor({ ...given, nodes: node, limitMs: milliseconds("timeout", timeout) }, terminal));
    },
  });
}

function addEndpoints(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "endpoints",
    describe: "Pods with their addresses, nodes, states and problems",
    builder: (command) =>
      cluster(command)
        .option("namespace", { ...textOption("Default: the context's"), alias: "n" })
        .option("all-namespaces", { ...flagOption("All of them"), alias: "A" })
        .options(OUTPUT_OPTIONS)
        .option("json", JSON_OUTPUT)
        .example("$0 endpoints -A -o wide", "With number, identity and container of each"),
    handler: async (given) => {
      const { endpoints } = await import("./endpoints.ts");
      finish(await shown(terminal, given.watch, (on) => endpoints({ ...given, output: outputOf(given) }, on)));
    },
  });
}

function addExplain(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "explain <kind> [name]",
    describe: "Why a pod, an address, an interface or a container has its network or has none; or what an error's word means",
    builder: (command) =>
      asked(command)
        .positional("kind", {
          type: "string",
          demandOption: true,
          describe: "pod, ip, interface, container; or a word of docs/reference/errors.md",
        })
        .positional("name", { type: "string", describe: "NAMESPACE/POD or POD, address, name of the host end, container id" })
        .option("namespace", { ...textOption("Of a POD; default: the context's"), alias: "n" })
        .option("at", textOption("What was so at that time, RFC 3339"))
        .option("node", textOption("Ask this node; default: the one that knows"))
        .option("json", JSON_OUTPUT)
        .example([
          ["$0 explain pod shop/web", "Of its node's agent"],
          ["$0 explain ip 10.244.9.3 --at 2026-11-26T10:00:00Z", "Who had the address then"],
        ]),
    handler: async ({ timeout, ...given }) => {
      const { explain } = await import("./explain.ts");
      finish(await explain({ ...given, limitMs: milliseconds("timeout", timeout) }, terminal));
    },
  });
}

function addIp(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "ip <address>",
    describe: "Who has an address, since when, from which block and pool",
    builder: (command) =>
      cluster(command)
        .positional("address", { type: "string", demandOption: true, describe: "IPv4 or IPv6" })
        .options(OUTPUT_OPTIONS)
        .option("json", JSON_OUTPUT)
        .example("$0 ip 10.244.9.3 -o json", "For a script"),
    handler: async (given) => {
      const { ip } = await import("./addresses.ts");
      finish(await shown(terminal, given.watch, (on) => ip({ ...given, output: outputOf(given) }, on)));
    },
  });
}

function addBlocks(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "blocks",
    describe: "The blocks of addresses, whose they are and how full",
    builder: (command) =>
      cluster(command)
        .option("node", textOption("Those of this node alone"))
        .options(OUTPUT_OPTIONS)
        .option("json", JSON_OUTPUT)
        .example("$0 blocks --node node-7", "Which blocks a node has claimed"),
    handler: async (given) => {
      const { blocks } = await import("./addresses.ts");
      finish(await shown(terminal, given.watch, (on) => blocks({ ...given, output: outputOf(given) }, on)));
    },
  });
}

function cluster(command: Argv) {
  return command
    .option("kubeconfig", textOption("Default: KUBECONFIG, else ~/.kube/config"))
    .option("context", textOption("Context of that file; default: its current one"));
}

/** Describes what a command takes that asks the agents' pods. */
function asked(command: Argv) {
  return cluster(command)
    .option("agent-namespace", { ...textOption("Where the agents' pods are"), default: "kube-system" })
    .option("timeout", numberOption("Seconds that a node may take to answer", 30));
}
