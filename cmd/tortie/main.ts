/** The main plugin, `tortie` or `calico`: flags, then the verb that CNI_COMMAND names (C§0.1). */
import type { Environment } from "../../lib/cni/environment.ts";
import type { CniRequest, CniResult } from "../../lib/cni/protocol.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../../lib/cni/version.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { withIgnoreUnknown } from "../../lib/workload/cni-args.ts";
import { type Plugin, print, printError, runPlugin } from "../plugin.ts";
import { readFlags } from "../plugin-flags.ts";
import { VERSION } from "../version.ts";
import { add } from "./add.ts";
import { del } from "./del.ts";
import { createServices, type Services } from "./services.ts";

const FLAGS = { v: "Display version", t: "Test the connection to the datastore; the network configuration is read from standard input" };

export async function tortie(argv: readonly string[], env: Environment): Promise<number> {
  const run = readFlags("tortie", argv, FLAGS);
  if (run.kind === "stop") {
    printError(run.stderr);
    return run.exit;
  }
  if (run.kind === "flag") {
    if (run.flag === "t") return (await import("./probe.ts")).probe(env);
    print(`${VERSION}\n`);
    return 0;
  }
  const plugin: Plugin = {
    name: "tortie",
    versionWhenAbsent: ABSENT_VERSION_OF_MAIN_RESULT,
    serve(request, config, log) {
      // The runtime's own keys (K8S_POD_UID and the like) must not fail the IPAM plugin, which inherits these arguments (C§0.1).
      const args = withIgnoreUnknown(request.args);
      return runVerb({ ...request, args }, config, createServices(config, env, log));
    },
  };
  return runPlugin(plugin, env);
}

async function runVerb(request: CniRequest, config: NetworkConfig, services: Services): Promise<CniResult | undefined> {
  switch (request.command) {
    case "ADD":
      return add(request, config, services);
    case "DEL":
      await del(request, config, services);
      return undefined;
    case "CHECK":
      await (await import("./check.ts")).check(request, config, services);
      return undefined;
    case "STATUS":
      await (await import("./status.ts")).status(request, config, services);
      return undefined;
    case "GC":
      await (await import("./gc.ts")).gc(request, config, services);
      return undefined;
  }
}
