/** `tortiectl install` and `tortiectl uninstall`. What they do is loaded when one of them is called. */
import type { Argv } from "yargs";
import { type CommandContext, command, JSON_OUTPUT } from "../terminal.ts";

const NET_DIR = { type: "string", default: "/etc/cni/net.d", describe: "Directory of network configurations", requiresArg: true } as const;
const DRY_RUN = { type: "boolean", default: false, describe: "Say what would be done, and do nothing" } as const;

export function installCommand(context: CommandContext) {
  return command({
    command: "install",
    describe: "Put plugins, kubeconfig and network configuration on this host",
    builder: installOptions,
    handler: async (given) => context.finish(await (await import("./run.ts")).installHere(given, context.terminal)),
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
        .option("wait", { type: "boolean", default: false, describe: "Leave what pods need until none of this host has Tortie's network" })
        .option("stay", { type: "boolean", default: false, describe: "Do not end when it is done, as a DaemonSet needs it" })
        .option("json", JSON_OUTPUT)
        .example("$0 uninstall --wait", "Once no pod of this host has Tortie's network"),
    handler: async (given) => context.finish(await (await import("./run.ts")).uninstallHere(given, context.terminal)),
  });
}

function installOptions(argv: Argv) {
  return argv
    .option("bin-dir", { type: "array", string: true, default: ["/opt/cni/bin"], describe: "Directory of plugins; may be given twice" })
    .option("net-dir", NET_DIR)
    .option("source", { type: "string", default: process.execPath, describe: "The executable to install", requiresArg: true })
    .option("plugins", { type: "string", describe: "Directory of further plugins to install, such as portmap", requiresArg: true })
    .option("conflist", { type: "string", default: "10-tortie.conflist", describe: "Name of the configuration's file", requiresArg: true })
    .option("dry-run", DRY_RUN)
    .option("watch", { type: "boolean", default: false, describe: "Stay: renew the token, put back what was removed" })
    .option("health-port", { type: "number", describe: "With --watch: serve GET /healthz on this port of 127.0.0.1", requiresArg: true })
    .option("force", { type: "boolean", default: false, describe: "Install even where the preflight finds something missing" })
    .option("json", JSON_OUTPUT)
    .example([
      ["$0 install --dry-run", "What this host lacks, and what would be done"],
      ["$0 install --plugins /opt/tortie/plugins", "With portmap and its like from there"],
    ])
    .epilogue("Further settings come from the environment, as for Calico's installer: docs/reference/installer.md");
}
