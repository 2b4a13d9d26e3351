/** Describes `tortiectl bundle`. Loads what it does when called. */
import {
  AGENT_OPTIONS,
  agentOptions,
  type CommandContext,
  command,
  flagOption,
  listOption,
  NET_DIR,
  numberOption,
  textOption,
} from "../options.ts";

export function bundleCommand(context: CommandContext) {
  return command({
    command: "bundle",
    describe: "Write an archive for a bug report: versions, doctor's report, logs, configuration and the kernel's state, without secrets",
    builder: (argv) =>
      argv
        .option("output", { ...textOption("The archive; default: tortie-bundle-HOST-TIME.tar.gz"), alias: "o" })
        .option("kubeconfig", textOption("Add the node's objects of the cluster that it leads to"))
        .option("node", textOption("With --kubeconfig: the node; default: this host's name, if it is one"))
        .option("net-dir", NET_DIR)
        .option("cni-path", textOption("Folders of plugins, separated by ':'; default as for tortiectl cni"))
        .option("log", listOption("A further log, may be repeated"))
        .option("socket", AGENT_OPTIONS.socket)
        .option("max-size", numberOption("MiB of all that is put into it, before compression", 24))
        .option("json", flagOption("Print what it holds as JSON"))
        .example([
          ["sudo $0 bundle", "What this host can tell"],
          ["sudo $0 bundle --kubeconfig ~/.kube/config --node n1 -o n1.tar.gz", "With the node's objects"],
        ])
        .epilogue("Read it before you give it away: it holds names, addresses and logs. docs/how-to/report-a-bug.md"),
    handler: async (given) =>
      context.finish(await (await import("./run.ts")).bundle({ ...given, ...agentOptions(given) }, context.terminal)),
  });
}
