/** The command line of `tortiectl cni`; what it does is in `command.ts`, loaded when one of these is called. */
import type { Argv, CommandModule } from "yargs";
import type { CommandContext } from "../terminal.ts";

/** Options as yargs hands them over. */
export interface CniOptions {
  readonly conflist: string;
  readonly netns: string | undefined;
  readonly containerId: string | undefined;
  readonly ifname: string;
  readonly cniPath: string | undefined;
  readonly args: string | undefined;
  readonly cacheDir: string;
  readonly capabilityArgs: string | undefined;
  readonly portMapping: readonly string[] | undefined;
  readonly bandwidth: string | undefined;
  readonly mac: string | undefined;
  readonly ips: readonly string[] | undefined;
  readonly valid: readonly string[] | undefined;
  readonly timeout: number;
  readonly strict: boolean;
  readonly verbose: boolean;
  readonly json: boolean;
}

export type CniVerb = "add" | "del" | "check" | "status" | "gc";

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

/** `tortiectl cni <verb>`: the runtime's side of the specification, over a conflist. */
export function cniCommand(context: CommandContext): CommandModule {
  return {
    command: "cni",
    describe: "Play a container runtime: run the plugins of a network configuration by hand",
    builder: (argv) => {
      for (const verb of ["add", "del", "check", "status", "gc"] as const) addVerb(argv, verb, context);
      return argv.demandCommand(1);
    },
    handler: () => undefined,
  };
}

function addVerb(argv: Argv, verb: CniVerb, context: CommandContext): void {
  const ofNetwork = verb === "status" || verb === "gc";
  argv.command(
    `${verb} <conflist> ${ofNetwork ? "[netns]" : "<netns>"}`,
    VERBS[verb],
    (command) => options(command, verb).example(EXAMPLES[verb]),
    async (given) => {
      const { cni } = await import("./command.ts");
      context.finish(await cni(verb, given, context.terminal));
    },
  );
}

function options(command: Argv, verb: CniVerb) {
  const ofNetwork = verb === "status" || verb === "gc";
  const ofAttachment = ofNetwork ? { hidden: true } : {};
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
    .option("container-id", { type: "string", requiresArg: true, describe: "Default: made from the namespace's path", ...ofAttachment })
    .option("ifname", { type: "string", requiresArg: true, default: "eth0", describe: "Interface inside the namespace", ...ofAttachment })
    .option("args", { type: "string", requiresArg: true, describe: "CNI_ARGS: KEY=VALUE;KEY=VALUE", ...ofAttachment })
    .option("port-mapping", {
      type: "string",
      array: true,
      nargs: 1,
      describe: "[HOST-IP:]HOST-PORT:POD-PORT[/tcp|udp|sctp], may be repeated",
      ...ofAttachment,
    })
    .option("bandwidth", {
      type: "string",
      requiresArg: true,
      describe: "ingress=8M,egress=8M[,ingressBurst=…,egressBurst=…] in bits (per second)",
      ...ofAttachment,
    })
    .option("mac", { type: "string", requiresArg: true, describe: "MAC of the interface", ...ofAttachment })
    .option("ips", { type: "string", array: true, nargs: 1, describe: "Address to ask for, may be repeated", ...ofAttachment })
    .option("capability-args", {
      type: "string",
      requiresArg: true,
      describe: "All capability arguments as a JSON object",
      ...ofAttachment,
    })
    .option("valid", {
      type: "string",
      array: true,
      nargs: 1,
      describe: "CONTAINER-ID:IFNAME that is alive, may be repeated; default: cached attachments whose namespace exists",
      ...(verb === "gc" ? {} : { hidden: true }),
    })
    .option("cni-path", {
      type: "string",
      requiresArg: true,
      describe: "Folders of plugins, separated by ':'; default: $CNI_PATH, else tortie's own folder and the usual ones",
    })
    .option("cache-dir", {
      type: "string",
      requiresArg: true,
      default: "/var/lib/cni",
      describe: "Results are kept in its folder results, as libcni does",
    })
    .option("timeout", { type: "number", requiresArg: true, default: 120, describe: "Seconds a plugin may take" })
    .option("strict", {
      type: "boolean",
      default: false,
      describe: "Exit status 1 too when something is wrong that STATUS passes over, such as a full pool",
      ...(verb === "status" ? {} : { hidden: true }),
    })
    .option("verbose", { alias: "v", type: "boolean", default: false, describe: "Show the plugins' log lines, not only when one fails" })
    .option("json", { type: "boolean", default: false, describe: "Print results and errors as the plugins' own JSON" });
}
