/** The IPAM plugin, `tortie-ipam` or `calico-ipam`, called by a main plugin that is not in the same process (I§1). */
import { createIpamServices, type IpamServices } from "../../ipam-plugin/services.ts";
import type { Environment } from "../../lib/cni/environment.ts";
import type { CniRequest, CniResult } from "../../lib/cni/protocol.ts";
import { ABSENT_VERSION } from "../../lib/cni/version.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import { createLogger } from "../../lib/log/logger.ts";
import { refuseOwnNamespace } from "../own-namespace.ts";
import { print, printError, runPlugin } from "../plugin.ts";
import { readFlags } from "../plugin-flags.ts";
import { VERSION } from "../version.ts";

const FLAGS = { v: "Display version", upgrade: "Upgrade from host-local" };

export async function tortieIpam(argv: readonly string[], env: Environment): Promise<number> {
  const run = readFlags("tortie-ipam", argv, FLAGS);
  if (run.kind === "stop") {
    printError(run.stderr);
    return run.exit;
  }
  if (run.kind === "flag") {
    if (run.flag === "upgrade") {
      const { upgradeFromHostLocal } = await import("./upgrade.ts");
      return upgradeFromHostLocal(env);
    }
    print(`${VERSION}\n`);
    return 0;
  }
  return runPlugin({ name: "tortie-ipam", versionWhenAbsent: ABSENT_VERSION, serve: (request) => serve(request, env) }, env);
}

async function serve(request: CniRequest, env: Environment): Promise<CniResult | undefined> {
  const config = decodeNetworkConfig(request.netconf);
  const log = createLogger(config.log, request);
  try {
    refuseOwnNamespace(request);
    // Not closed, as in the main plugin (cmd/tortie/services.ts).
    const datastore = await openDatastore(config, env);
    const services = createIpamServices({ datastore, node: nodeName(config), env, log });
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

async function runVerb(request: CniRequest, config: NetworkConfig, services: IpamServices): Promise<CniResult | undefined> {
  const plugin = await import("../../ipam-plugin/ipam-plugin.ts");
  switch (request.command) {
    case "ADD":
      return (await plugin.ipamAdd(request, config, services)).result;
    case "DEL":
      await plugin.ipamDel(request, config, services);
      return undefined;
    case "CHECK":
      await plugin.ipamCheck(request, config, services);
      return undefined;
    case "STATUS":
      await plugin.ipamStatus(request, config, services);
      return undefined;
    case "GC":
      await plugin.ipamGc(request, config, services);
      return undefined;
  }
}
