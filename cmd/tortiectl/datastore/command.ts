/** `tortiectl datastore`: a datastore as a whole. What it does is loaded when it is called. */
import type { Argv, CommandModule } from "yargs";
import { type CommandContext, JSON_OUTPUT } from "../terminal.ts";
import type { StoreType } from "./migrate.ts";

const STORE_TYPES: readonly StoreType[] = ["local", "kubernetes", "etcdv3"];

export function datastoreCommand(context: CommandContext): CommandModule {
  return {
    command: "datastore",
    describe: "Move everything that a datastore holds to another one",
    builder: (argv) => {
      addMigrate(argv, context);
      return argv.demandCommand(1);
    },
    handler: () => undefined,
  };
}

function addMigrate(argv: Argv, context: CommandContext): void {
  argv.command({
    command: "migrate",
    describe: "Copy pools, addresses and endpoints from one datastore to another while no pod is added, and compare them",
    builder: (command) =>
      command
        .option("from", { choices: STORE_TYPES, demandOption: true, describe: "The source" })
        .option("to", { choices: STORE_TYPES, demandOption: true, describe: "The target; ETCD_ENDPOINTS leads to etcdv3" })
        .option("datastore", { type: "string", requiresArg: true, describe: "File of the local one, default /var/lib/tortie/tortie.db" })
        .option("kubeconfig", { type: "string", requiresArg: true, describe: "Leads to kubernetes, default $KUBECONFIG" })
        .option("dry-run", { type: "boolean", default: false, describe: "Compare the two, and change nothing" })
        .option("overwrite", { type: "boolean", default: false, describe: "Replace and remove what the target has otherwise" })
        .option("wait", { type: "number", default: 60, describe: "Seconds for pods that are being added" })
        .option("settle", { type: "number", default: 60, describe: "Seconds between pausing the datastores and reading them" })
        .option("record", {
          type: "string",
          requiresArg: true,
          default: "/var/lib/tortie/migration.json",
          describe: "File that remembers a migration under way",
        })
        .option("json", JSON_OUTPUT)
        .example("$0 datastore migrate --from local --to kubernetes --dry-run", "What would change"),
    handler: async (given) => context.finish(await (await import("./migrate.ts")).migrateStore(given, context.terminal)),
  });
}
