/** The main plugin, `tortie` or `calico`: flags, then the verb that CNI_COMMAND names (C§0.1). */
import type { Environment } from "../../lib/cni/environment.ts";
import type { CniRequest, CniResult } from "../../lib/cni/protocol.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../../lib/cni/version.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { createLogger } from "../../lib/log/logger.ts";
import { withIgnoreUnknown } from "../../lib/workload/cni-args.ts";
import { print, printError, runPlugin } from "../plugin.ts";
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
  return runPlugin({ name: "tortie", versionWhenAbsent: ABSENT_VERSION_OF_MAIN_RESULT, serve: (request) => serve(request, env) }, env);
}

async function serve(original: CniRequest, env: Environment): Promise<CniResult | undefined> {
  const config = decodeNetworkConfig(original.netconf);
  // The runtime's own keys (K8S_POD_UID and the like) must not fail the IPAM plugin, which inherits these arguments (C§0.1).
  const args = withIgnoreUnknown(original.args);
  const request = { ...original, args };
  const log = createLogger(config.log, request);
  try {
    const services = createServices(config, env, log);
    const result = await runVerb(request, config, services);
    log.info(`${request.command} done`);
    return result;
  } catch (error) {
    log.error(`${request.command} failed`, { error });
    throw error;
  } finally {
    await log.flush();
  }
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
