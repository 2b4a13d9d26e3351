/** Describes `tortiectl cni`, the runtime's side of the specification over a conflist. Loads what it does when one of its verbs is called. */
import type { Argv, CommandModule, Options } from "yargs";
import { type CommandContext, flagOption, group, numberOption, repeatedOption, textOption } from "../options.ts";
import type { CniVerb } from "./run.ts";

const VERBS: Readonly<Record<CniVerb, string>> = {
  add: "Attach the namespace to the network: ADD of every plugin, in order",
  del: "Detach it: DEL of every plugin, in reverse, with the result that ADD left",
  check: "Compare what is with what ADD reported: CHECK of every plugin",
  status: "Ask every plugin whether it is ready for an ADD (CNI 1.1.0)",
  gc: "Remove what belongs to no living attachment: stale ones by DEL, the rest by GC (CNI 1.1.0)",
};

const EXAMPLES: Readonly<Record<CniVerb, [string, string][]>> = {
  add: [
    ["$0 cni add 10-pods.conflist blue", "The namespace that `ip netns add blue` made"],
    ["$0 cni add 10-pods.conflist blue --port-mapping 8080:80 --ips 10.244.9.3", "With a port of the host and an address of choice"],
  ],
  del: [["$0 cni del 10-pods.conflist blue", "As it was added"]],
  check: [["$0 cni check 10-pods.conflist blue", "As it was added"]],
  status: [["$0 cni status 10-pods.conflist --strict", "Whether a pod could be added now, a full pool included"]],
  gc: [["$0 cni gc 10-pods.conflist --valid c3:eth0", "Everything of the network goes but this attachment"]],
};

/** Hides options where the verb is about a whole network. */
const OF_ATTACHMENT = {
  "container-id": textOption("Default: made from the namespace's path"),
  ifname: { ...textOption("Interface inside the namespace"), default: "eth0" },
  args: textOption("CNI_ARGS: KEY=VALUE;KEY=VALUE"),
  "port-mapping": repeatedOption("[HOST-IP:]HOST-PORT:POD-PORT[/tcp|udp|sctp], may be repeated"),
  bandwidth: textOption("ingress=8M,egress=8M[,ingressBurst=…,egressBurst=…] in bits (per second)"),
  mac: textOption("MAC of the interface"),
  ips: repeatedOption("Address to ask for, may be repeated"),
  "capability-args": textOption("All capability arguments as a JSON object"),
} as const satisfies Readonly<Record<string, Options>>;

const OF_EVERY_VERB = {
  valid: repeatedOption("CONTAINER-ID:IFNAME that is alive, may be repeated; default: cached attachments whose namespace exists"),
  "cni-path": textOption("Folders of plugins, separated by ':'; default: $CNI_PATH, else tortie's own folder and the usual ones"),
  "cache-dir": { ...textOption("Results are kept in its folder results, as libcni does"), default: "/var/lib/cni" },
  timeout: numberOption("Seconds a plugin may take", 120),
  strict: flagOption("Exit status 1 too when something is wrong that STATUS passes over, such as a full pool"),
  verbose: { ...flagOption("Show the plugins' log lines, not only when one fails"), alias: "v" },
  json: flagOption("Print results and errors as the plugins' own JSON"),
} as const satisfies Readonly<Record<string, Options>>;

export function cniCommand(context: CommandContext): CommandModule {
  return group("cni", "Play a container runtime: run the plugins of a network configuration by hand", (argv) => {
    for (const verb of ["add", "del", "check", "status", "gc"] as const) addVerb(argv, verb, context);
  });
}

function addVerb(argv: Argv, verb: CniVerb, context: CommandContext): void {
  const ofNetwork = verb === "status" || verb === "gc";
  const hidden = [
    ...(ofNetwork ? Object.keys(OF_ATTACHMENT) : []),
    ...(verb === "gc" ? [] : ["valid"]),
    ...(verb === "status" ? [] : ["strict"]),
  ];
  argv.command({
    command: `${verb} <conflist> ${ofNetwork ? "[netns]" : "<netns>"}`,
    describe: VERBS[verb],
    builder: (command) => {
      for (const name of hidden) command.hide(name);
      return command
        .positional("conflist", {
          type: "string",
          demandOption: true,
          describe: "File: a network configuration list, or a single configuration",
        })
        .positional("netns", {
          type: "string",
          describe: ofNetwork
            ? "Taken for symmetry, and ignored: the whole network is meant"
            : "Path of a network namespace, or its name below /run/netns",
        })
        .options(OF_ATTACHMENT)
        .options(OF_EVERY_VERB)
        .example(EXAMPLES[verb]);
    },
    handler: async (given) => context.finish(await (await import("./run.ts")).cni(verb, given, context.terminal)),
  });
}
