/** Describes `datastore`, `install`, `uninstall`, `validate`, `nat` and `routes` of `tortiectl`. Loads what a command does when called. */
import type { Argv, CommandModule } from "yargs";
import { TortieError } from "../../lib/errors/errors.ts";
import type { StoreType } from "./migrate.ts";
import { agentOptions, type CommandContext, command, flagOption, group, JSON_OUTPUT, NET_DIR, textOption } from "./options.ts";
import type { Terminal } from "./terminal.ts";

const STORE_TYPES: readonly StoreType[] = ["local", "kubernetes", "etcdv3"];

export function datastoreCommand(context: CommandContext): CommandModule {
  return group("datastore", "Move everything that a datastore holds to another one", (argv) => addMigrate(argv, context));
}

function addMigrate(argv: Argv, context: CommandContext): void {
  argv.command({
    command: "migrate",
    describe: "Copy pools, addresses and endpoints from one datastore to another while no pod is added, and compare them",
    builder: (command) =>
      command
        .option("from", { choices: STORE_TYPES, demandOption: true, describe: "The source" })
        .option("to", { choices: STORE_TYPES, demandOption: true, describe: "The target; ETCD_ENDPOINTS leads to etcdv3" })
        .option("datastore", textOption("File of the local one, default /var/lib/tortie/tortie.db"))
        .option("kubeconfig", textOption("Leads to kubernetes, default $KUBECONFIG"))
        .option("dry-run", flagOption("Compare the two, and change nothing"))
        .option("overwrite", flagOption("Replace and remove what the target has otherwise"))
        .option("wait", { type: "number", default: 60, describe: "Seconds for pods that are being added" })
        .option("settle", { type: "number", default: 60, describe: "Seconds between pausing the datastores and reading them" })
        .option("record", { ...textOption("File that remembers a migration under way"), default: "/var/lib/tortie/migration.json" })
        .option("json", JSON_OUTPUT)
        .example("$0 datastore migrate --from local --to kubernetes --dry-run", "What would change"),
    handler: async (given) => context.finish(await (await import("./migrate.ts")).migrateStore(given, context.terminal)),
  });
}

const DRY_RUN = flagOption("Say what would be done, and do nothing");

export function installCommand(context: CommandContext) {
  return command({
    command: "install",
    describe: "Put plugins, kubeconfig and network configuration on this host",
    builder: installOptions,
    handler: async (given) => context.finish(await (await import("./install.ts")).installHere(given, context.terminal)),
  });
}

export function uninstallCommand(context: CommandContext) {
  return command({
    command: "uninstall",
    describe: "Undo exactly what the installation of this host did",
    builder: (argv) =>
      argv
        .option("net-dir", NET_DIR)
        .option("dry-run", DRY_RUN)
        .option("wait", flagOption("Leave what pods need until none of this host has Tortie's network"))
        .option("stay", flagOption("Do not end when it is done, as a DaemonSet needs it"))
        .option("json", JSON_OUTPUT)
        .example("$0 uninstall --wait", "Once no pod of this host has Tortie's network"),
    handler: async (given) =>
      context.finish(await (await import("./install.ts")).uninstallHere({ ...given, ...agentOptions(given) }, context.terminal)),
  });
}

function installOptions(argv: Argv) {
  return argv
    .option("bin-dir", { type: "array", string: true, default: ["/opt/cni/bin"], describe: "Directory of plugins; may be given twice" })
    .option("net-dir", NET_DIR)
    .option("source", { ...textOption("The executable to install"), default: process.execPath })
    .option("plugins", textOption("Directory of further plugins to install, such as portmap"))
    .option("conflist", { ...textOption("Name of the configuration's file"), default: "10-tortie.conflist" })
    .option("dry-run", DRY_RUN)
    .option("watch", flagOption("Stay: renew the token, put back what was removed"))
    .option("health-port", { type: "number", describe: "With --watch: serve GET /healthz on this port of 127.0.0.1", requiresArg: true })
    .option("force", flagOption("Install even where the preflight finds something missing"))
    .option("json", JSON_OUTPUT)
    .example([
      ["$0 install --dry-run", "What this host lacks, and what would be done"],
      ["$0 install --plugins /opt/tortie/plugins", "With portmap and its like from there"],
    ])
    .epilogue("Further settings come from the environment, as for Calico's installer: docs/reference/installer.md");
}

export function validateCommand(context: CommandContext) {
  return command({
    command: "validate [files..]",
    describe: "Judge network configurations, Calico's IPAM objects and pods' annotations before anything uses them",
    builder: (argv) =>
      argv
        .positional("files", { type: "string", array: true, describe: 'JSON or YAML; "-" is standard input' })
        .option(
          "cni-bin-dir",
          textOption(
            "Folders of plugins, separated by ':', whose executables are asked for their versions; '' asks none; default: as for tortiectl cni",
          ),
        )
        .option("print-schema", flagOption("Print the JSON Schema of a network configuration"))
        .option("json", JSON_OUTPUT)
        .example([
          ["$0 validate 10-pods.conflist pools.yaml", "Before a runtime or a cluster meets them"],
          ["kubectl get ippools.crd.projectcalico.org -o yaml | $0 validate -", "What a cluster has already"],
        ])
        .check(({ files, printSchema }) => {
          const isAnyGiven = Array.isArray(files) && files.length > 0;
          if (isAnyGiven === (printSchema === true))
            throw new TortieError("argument-missing", "validate: which files? (or --print-schema alone)");
          return true;
        }),
    handler: async (given) =>
      context.finish(await (await import("./validate.ts")).validate({ ...given, files: given.files ?? [] }, context.terminal)),
  });
}

export function natCommand({ terminal, finish }: CommandContext): CommandModule {
  return group("nat", "Masquerading of the traffic that leaves the pools", (nat) => {
    nat.command({
      command: "remove",
      describe: "Remove tortie's nftables table; the next ADD that needs it makes it again",
      builder: (command) => command.option("json", JSON_OUTPUT),
      handler: async ({ json }) => finish(await natRemove(terminal, json)),
    });
  });
}

export function routesCommand({ terminal, finish }: CommandContext): CommandModule {
  return group("routes", "Routes to other nodes", (routes) => {
    routes.command({
      command: "show",
      describe: "The routes to other nodes that the kernel of this one has: direct ones, and those through a VXLAN device",
      builder: (command) => command.option("json", JSON_OUTPUT),
      handler: async ({ json }) => finish((await import("./show-routes.ts")).showRoutes(json, terminal)),
    });
    routes.command({
      command: "remove",
      describe: "Remove the routes and VXLAN devices that an agent has made; one that runs with --node-routes makes them again",
      builder: (command) => command.option("json", JSON_OUTPUT),
      handler: async ({ json }) => finish(await routesRemove(terminal, json)),
    });
  });
}

/**
 * Removes the one nftables table of the local datastore, for a node whose pods are gone.
 * @returns exit status
 * @throws TortieError `nat-failed`
 */
async function natRemove(terminal: Terminal, json: boolean): Promise<number> {
  const { removeNodeTable } = await import("../../dataplane/linux/apply-node-state.ts");
  const { HostSockets } = await import("../../dataplane/netlink/host-sockets.ts");
  using host = new HostSockets();
  const removed = removeNodeTable(host);
  if (json) terminal.out(JSON.stringify({ removed }));
  else
    terminal.out(removed ? "tortie's nftables table is removed; the next ADD makes it again" : "there was no nftables table of tortie's");
  return 0;
}

/**
 * Removes what the agent has made for other nodes.
 * @returns exit status
 * @throws TortieError `netlink-failed` when something of it could not be removed
 */
async function routesRemove(terminal: Terminal, json: boolean): Promise<number> {
  const { applyNetwork } = await import("../../dataplane/linux/apply-network.ts");
  const { HostSockets } = await import("../../dataplane/netlink/host-sockets.ts");
  using host = new HostSockets();
  const { changed, failed } = await applyNetwork(host, { tunnels: [], routes: [] });
  if (json) {
    terminal.out(JSON.stringify({ changed, failed }));
    return failed.length === 0 ? 0 : 1;
  }
  for (const what of changed) terminal.out(what);
  if (failed.length > 0) throw new TortieError("netlink-failed", failed.join("; "));
  terminal.out("no route or VXLAN device of tortie's is left; an agent with --node-routes makes them again");
  return 0;
}
