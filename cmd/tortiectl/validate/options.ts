/** The command line of `tortiectl validate`; what it does is in `command.ts`, loaded when it is called. */
import type { CommandModule } from "yargs";
import { TortieError } from "../../../lib/errors/errors.ts";
import type { CommandContext } from "../terminal.ts";

export interface ValidateOptions {
  readonly files: readonly string[];
  readonly cniBinDir: string | undefined;
  readonly printSchema: boolean;
  readonly json: boolean;
}

export function validateCommand(context: CommandContext): CommandModule {
  return {
    command: "validate [files..]",
    describe: "Judge network configurations, Calico's IPAM objects and pods' annotations before anything uses them",
    builder: (argv) =>
      argv
        .positional("files", { type: "string", array: true, describe: 'JSON or YAML; "-" is standard input' })
        .option("cni-bin-dir", {
          type: "string",
          requiresArg: true,
          describe:
            "Folders of plugins, separated by ':', whose executables are asked for their versions; '' asks none; default: as for tortiectl cni",
        })
        .option("print-schema", { type: "boolean", default: false, describe: "Print the JSON Schema of a network configuration" })
        .option("json", { type: "boolean", default: false, describe: "Print JSON" })
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
    handler: async (given) => context.finish(await (await import("./command.ts")).validate(optionsOf(given), context.terminal)),
  };
}

function optionsOf(given: Readonly<Record<string, unknown>>): ValidateOptions {
  return {
    files: Array.isArray(given.files) ? given.files.map(String) : [],
    cniBinDir: typeof given.cniBinDir === "string" ? given.cniBinDir : undefined,
    printSchema: given.printSchema === true,
    json: given.json === true,
  };
}
