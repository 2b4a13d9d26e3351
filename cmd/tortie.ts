/** The main plugin, `tortie` or `calico`: flags, then the verb that CNI_COMMAND names (C§0.1). */
import type { Environment } from "../lib/cni/environment.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { withIgnoreUnknown } from "../lib/workload/cni-args.ts";
import { type Access, createAccess } from "../main-plugin/access.ts";
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
    if (run.flag === "t") return (await import("../main-plugin/probe.ts")).probe(env);
    print(`${VERSION}\n`);
    return 0;
  }
  const plugin: Plugin = {
    name: "tortie",
    async serve(request, config, log) {
      const access = createAccess(config, env, log);
      await access.headStart();
      // The runtime's own keys (K8S_POD_UID and the like) must not fail the IPAM plugin, which inherits these arguments (C§0.1).
      return serveVerb({ ...request, args: withIgnoreUnknown(request.args) }, config, access);
    },
  };
  return runPlugin(plugin, env);
}

/** Loads what the verb needs. @returns what is to be printed */
async function serveVerb(request: CniRequest, config: NetworkConfig, access: Access): Promise<string | undefined> {
  if (request.command === "ADD") return (await import("../main-plugin/add.ts")).add(request, config, access);
  const { serveOther } = await import("../main-plugin/other-verbs.ts");
  await serveOther(request.command, request, config, access);
  return undefined;
}
