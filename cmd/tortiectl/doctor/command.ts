/** Describes `tortiectl doctor`. Loads what it does when called. */
import { DEFAULT_SOCKET } from "../../../handover/run-directory.ts";
import { agentOptions, type CommandContext, command, JSON_OUTPUT } from "../terminal.ts";

export function doctorCommand(context: CommandContext) {
  return command({
    command: "doctor",
    describe: "Ask everything that can be known about this host, or about the cluster, and say what to do next",
    builder: (argv) =>
      argv
        .option("cluster", { type: "boolean", default: false, describe: "Ask the API server about all nodes instead; no agent is needed" })
        .option("kubeconfig", {
          type: "string",
          requiresArg: true,
          describe: "With --cluster: leads to the API server, default $KUBECONFIG, then ~/.kube/config",
        })
        .option("namespace", {
          type: "string",
          requiresArg: true,
          default: "kube-system",
          describe: "With --cluster: where agents and controller run",
        })
        .option("wait", { type: "number", requiresArg: true, default: 0, describe: "Ask again for so many seconds, until nothing fails" })
        .option("net-dir", {
          type: "string",
          requiresArg: true,
          default: "/etc/cni/net.d",
          describe: "Directory of network configurations",
        })
        .option("cni-bin-dir", {
          type: "string",
          requiresArg: true,
          describe: "Folders of plugins, separated by ':'; default: as for tortiectl cni",
        })
        .option("socket", {
          type: "string",
          requiresArg: true,
          describe: `The agent's socket; default: TORTIE_SOCK, else ${DEFAULT_SOCKET}`,
        })
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
