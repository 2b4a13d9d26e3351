/** The main plugin, `tortie` or `calico`: flags, then the verb that CNI_COMMAND names (C§0.1). */
import type { Environment } from "../lib/cni/environment.ts";
import { resolveNetworkCall } from "../main-plugin/call.ts";
import { executesIpam } from "../main-plugin/ipam-source.ts";
import { createNode } from "../main-plugin/node.ts";
import { serve } from "../main-plugin/serve.ts";
import { takeLeastPrivilege } from "./least-privilege.ts";
import { type Plugin, print, printError, runPlugin } from "./plugin.ts";
import { readFlags } from "./plugin-flags.ts";
import { VERSION } from "./version.ts";

const FLAGS = { v: "Display version", t: "Test the connection to the datastore; the network configuration is read from standard input" };

export async function tortie(argv: readonly string[], env: Environment): Promise<number> {
  const run = readFlags("tortie", argv, FLAGS);
  if (run.kind === "stop") {
    printError(run.stderr);
    return run.exit;
  }
  if (run.kind === "flag") {
    if (run.flag === "t") return testConnection(env);
    print(`${VERSION}\n`);
    return 0;
  }
  const plugin: Plugin = {
    name: "tortie",
    serve(request, config, log, signal) {
      takeLeastPrivilege(config, executesIpam(request, config), log);
      // Not closed: the process ends with its one call, and the last process that closes a local datastore copies it back into its file,
      // with three waits for the disk (docs/decisions.md).
      return serve(resolveNetworkCall(request, config, env, log, signal), createNode(config, env, log));
    },
  };
  return runPlugin(plugin, env);
}

/** Prints nothing on success. @returns the exit status */
async function testConnection(env: Environment): Promise<number> {
  const { probe } = await import("../main-plugin/probe.ts");
  const error = await probe(env);
  if (error === undefined) return 0;
  print(error);
  return 1;
}
