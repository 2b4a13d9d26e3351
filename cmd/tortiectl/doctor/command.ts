/** Describes `tortiectl doctor`. Loads what it does when called. */
import {
  AGENT_OPTIONS,
  agentOptions,
  type CommandContext,
  command,
  flagOption,
  JSON_OUTPUT,
  NET_DIR,
  numberOption,
  textOption,
} from "../options.ts";

export function doctorCommand(context: CommandContext) {
  return command({
    command: "doctor",
    describe: "Ask everything that can be known about this host, or about the cluster, and say what to do next",
    builder: (argv) =>
      argv
        .option("cluster", flagOption("Ask the API server about all nodes instead; no agent is needed"))
        .option("kubeconfig", textOption("With --cluster: leads to the API server, default $KUBECONFIG, then ~/.kube/config"))
        .option("namespace", { ...textOption("With --cluster: where agents and controller run"), default: "kube-system" })
        .option("wait", numberOption("Ask again for so many seconds, until nothing fails", 0))
        .option("net-dir", NET_DIR)
        .option("cni-bin-dir", textOption("Folders of plugins, separated by ':'; default: as for tortiectl cni"))
        .option("socket", AGENT_OPTIONS.socket)
        .option("json", JSON_OUTPUT)
        .example([
          ["sudo $0 doctor", "What keeps pods of this host from their network"],
          ["$0 doctor --cluster --wait 120", "After an installation, until every node is well"],
        ])
        .epilogue("Exit status 0: nothing failed; 1: something did. Each check: docs/reference/doctor.md"),
    handler: async (given) => {
      const { doctor } = await import("./run.ts");
      context.finish(await doctor({ ...given, ...agentOptions(given) }, context.terminal));
    },
  });
}
