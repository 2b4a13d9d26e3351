/** The main plugin, `tortie` or `calico`: flags, then the verb that CNI_COMMAND names (C§0.1). */
import type { Environment } from "../lib/cni/environment.ts";
import { createAccess } from "../main-plugin/access.ts";
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
      const { serve } = await import("../main-plugin/serve.ts");
      const { createServices } = await import("../main-plugin/services.ts");
      return serve(request, config, createServices(config, createAccess(config, env, log)));
    },
  };
  return runPlugin(plugin, env);
}
