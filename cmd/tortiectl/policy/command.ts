import type { Argv, CommandModule } from "yargs";
import {
  AGENT_OPTIONS,
  agentOptions,
  type CommandContext,
  flagOption,
  group,
  numberOption,
  OUTPUT_OPTIONS,
  outputOf,
  textOption,
} from "../options.ts";
import { shown } from "../terminal.ts";

export function policyCommand(context: CommandContext): CommandModule {
  return group("policy", "Which traffic the policies allow on this node, and why a packet was dropped", (argv) => {
    argv.options(AGENT_OPTIONS);
    addList(argv, context);
    addExplain(argv, context);
    addDrops(argv, context);
    addWait(argv, context);
    addCheck(argv, context);
    addOff(argv, context);
  });
}

function addList(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "list",
    describe: "The NetworkPolicy objects that this node knows: valid or not, whom they select here, whether they are in force",
    builder: (command) => command.options(OUTPUT_OPTIONS).example("$0 policy list -o wide", "With versions, and the endpoints by name"),
    handler: async (given) => {
      const { list } = await import("./list.ts");
      const options = { ...agentOptions(given), output: outputOf(given) };
      finish(await shown(terminal, given.watch, (on) => list(options, on)));
    },
  });
}

const END = "NAMESPACE/POD, POD of this node, address, or host interface";

function addExplain(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "explain <from> <to> <port>",
    describe: "Whether a connection would pass, by the policies of both ends, and which rule decides; exit status 1 where it would not",
    builder: (command) =>
      command
        .positional("from", { type: "string", demandOption: true, describe: END })
        .positional("to", { type: "string", demandOption: true, describe: END })
        .positional("port", {
          type: "string",
          demandOption: true,
          describe: "PORT, PORT/udp, PORT/sctp, or icmp; a number, or what the pod calls it",
        })
        .example([
          ["$0 policy explain shop/web shop/db 5432", "TCP port 5432"],
          ["$0 policy explain 203.0.113.7 shop/web 53/udp", "From somewhere else"],
        ]),
    handler: async (given) => {
      const { explain } = await import("./explain.ts");
      finish(await explain({ ...agentOptions(given), from: given.from, to: given.to, port: given.port }, terminal));
    },
  });
}

function addDrops(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "drops [endpoint]",
    describe: "The last packets that policy has dropped, a hundred of each endpoint, and why",
    builder: (command) =>
      command
        .positional("endpoint", { type: "string", describe: `Of one endpoint: ${END}; default: all of this node` })
        .option("follow", { ...flagOption("Show those from now on, as they come"), alias: "f" })
        .example([
          ["$0 policy drops shop/web", "What a pod may not do, and who may not reach it"],
          ["$0 policy drops --follow", "While somebody tries"],
        ]),
    handler: async (given) => {
      const { drops } = await import("./drops.ts");
      finish(await drops({ ...agentOptions(given), endpoint: given.endpoint, follow: given.follow }, terminal));
    },
  });
}

function addWait(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "wait",
    describe: "Wait until the kernel holds what the policies say; exit status 1 when it does not within the time",
    builder: (command) =>
      command
        .option("policy", textOption("NAMESPACE/NAME; default: all"))
        .option("resource-version", textOption("Of the policy; default: what the server has now"))
        .option("timeout", numberOption("Seconds, 300 at most", 30))
        .example("$0 policy wait --policy shop/close", "After kubectl apply"),
    handler: async (given) => {
      const { wait } = await import("./wait.ts");
      const { policy, timeout } = given;
      finish(await wait({ ...agentOptions(given), policy, resourceVersion: given["resource-version"], timeout }, terminal));
    },
  });
}

function addCheck(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "check",
    describe:
      "What weakens policy on this node: its table, pods that nobody has spoken for, Felix, IPVS, bridges; exit status 1 where something does",
    builder: (command) => command.example("$0 policy check --json", "For a script that looks at every node"),
    handler: async (given) => {
      const { check } = await import("./check.ts");
      finish(await check(agentOptions(given), terminal));
    },
  });
}

function addOff(argv: Argv, { terminal, finish }: CommandContext): void {
  argv.command({
    command: "off",
    describe: "Open this node again where the agent is gone for good: remove the packet filter's table",
    builder: (command) =>
      command
        .option("force", flagOption("Even while an agent enforces policy, which makes the table again"))
        .example("$0 policy off", "After the agent was removed from this node"),
    handler: async (given) => {
      const { off } = await import("./off.ts");
      finish(await off({ ...agentOptions(given), force: given.force }, terminal));
    },
  });
}
