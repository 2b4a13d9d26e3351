import { AGENT_OPTIONS, agentOptions, type CommandContext, command, flagOption, numberOption, STORE_OPTIONS } from "../options.ts";
import type { Tortiectl } from "./run.ts";

/** @param run is `tortiectl` itself: the page shows what its commands say */
export function uiCommand(context: CommandContext, run: Tortiectl) {
  return command({
    command: "ui",
    describe: "Look at addresses, endpoints, routes, policy and doctor in a browser of this machine",
    builder: (argv) =>
      argv
        .option("socket", AGENT_OPTIONS.socket)
        .options(STORE_OPTIONS)
        .option("port", numberOption("Port of 127.0.0.1; 0: one that is free", 0))
        .option("json", flagOption("Print the address as JSON"))
        .conflicts({ datastore: ["conf", "kubeconfig"], kubeconfig: "conf" })
        .example([
          ["$0 ui", "This node, by its agent and its datastore"],
          ["$0 ui --kubeconfig ~/.kube/config", "A cluster's addresses, from anywhere"],
        ]),
    handler: async (given) => {
      const options = { ...given, ...agentOptions(given) };
      context.finish(await (await import("./run.ts")).serveUi(options, context.terminal, run));
    },
  });
}
