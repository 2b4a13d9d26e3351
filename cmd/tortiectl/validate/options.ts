/** The command line of `tortiectl validate`; what it does is loaded when it is called. */
import type { CommandModule } from "yargs";
import type { CommandContext } from "../terminal.ts";

export function validateCommand(context: CommandContext): CommandModule {
  return {
    command: "validate [file..]",
    describe: "Judge network configurations, pools and annotated pods in files, with the plugins' own code",
    builder: (argv) =>
      argv
        .positional("file", { type: "string", array: true, describe: "Conflists, and Kubernetes objects as YAML or JSON" })
        .option("cni-path", {
          type: "string",
          describe: "Folders of plugins, separated by ':', which are asked for their versions; default as for cni",
        })
        .option("versions", { type: "boolean", default: true, describe: "Ask the plugins of a list for their versions" })
        .option("schema", { type: "boolean", default: false, describe: "Print the JSON Schema of a network configuration list" })
        .option("json", { type: "boolean", default: false, describe: "Print JSON" }),
    handler: async ({ file, cniPath, versions, schema, json }) => {
      const { printSchema, validate } = await import("./command.ts");
      const { terminal } = context;
      if (schema === true) context.finish(printSchema(terminal));
      else {
        const files = Array.isArray(file) ? file.map(String) : [];
        const path = typeof cniPath === "string" ? cniPath : undefined;
        context.finish(await validate({ files, cniPath: path, versions: versions === true, json: json === true }, terminal));
      }
    },
  };
}
