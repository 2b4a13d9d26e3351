/** The command line of `tortiectl datastore`; what it does is in `migrate.ts`, loaded when it is called. */
import type { Argv, CommandModule } from "yargs";
import type { CommandContext } from "../terminal.ts";

const STORE_TYPES = ["local", "kubernetes", "etcdv3"] as const;

export type StoreType = (typeof STORE_TYPES)[number];

export interface MigrateOptions {
  readonly from: StoreType;
  readonly to: StoreType;
  readonly datastore: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly overwrite: boolean;
  readonly dryRun: boolean;
  /** Seconds. */
  readonly wait: number;
  readonly settle: number;
  readonly record: string;
  readonly json: boolean;
}

/** `tortiectl datastore <verb>`: a datastore as a whole. */
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
  argv.command(
    "migrate",
    "Copy pools, addresses and endpoints from one datastore to another while no pod is added, and compare them",
    (command) =>
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
        .option("json", { type: "boolean", default: false, describe: "Print JSON" })
        .example("$0 datastore migrate --from local --to kubernetes --dry-run", "What would change"),
    async (given) => context.finish(await (await import("./migrate.ts")).migrateStore(given, context.terminal)),
  );
}
