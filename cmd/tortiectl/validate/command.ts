/** `tortiectl validate`. What it does is loaded when it is called. */
import { TortieError } from "../../../lib/errors/errors.ts";
import { type CommandContext, command, JSON_OUTPUT } from "../terminal.ts";

export function validateCommand(context: CommandContext) {
  return command({
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
      context.finish(await (await import("./run.ts")).validate({ ...given, files: given.files ?? [] }, context.terminal)),
  });
}
