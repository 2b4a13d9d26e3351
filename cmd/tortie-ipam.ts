/** Runs the IPAM plugin, `tortie-ipam` or `calico-ipam`, called by a main plugin that is not in the same process (I§1). */

import { readdirSync } from "node:fs";
import { resolveIpamCall } from "../ipam-plugin/call.ts";
import { createIpamHost } from "../ipam-plugin/host.ts";
import { parseAddress } from "../lib/addresses/address.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { ABSENT_VERSION, refuseOwnNamespace } from "../lib/cni/request.ts";
import { renderResult } from "../lib/cni/result.ts";
import { clientEnvironment } from "../lib/config/limits.ts";
import { openDatastore } from "../lib/datastore/open.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { unlessMissing } from "../lib/system/files.ts";
import { exitNow } from "../lib/system/libc.ts";
import { takeLeastPrivilege } from "./least-privilege.ts";
import { print, printError } from "./output.ts";
import { printOwnVersion, runFlag, runPlugin } from "./plugin.ts";
import type { Plugin } from "./serve-call.ts";

/** Ends the process. */
export async function runTortieIpam(argv: readonly string[], env: Environment): Promise<never> {
  return exitNow(await tortieIpam(argv, env));
}

async function tortieIpam(argv: readonly string[], env: Environment): Promise<number> {
  const answered = await runFlag("tortie-ipam", argv, {
    v: ["Display version", printOwnVersion],
    upgrade: ["Check that host-local holds no addresses", () => upgrade(env)],
  });
  if (answered !== undefined) return answered;
  const plugin: Plugin = {
    name: "tortie-ipam",
    async serve(request, config, log, signal) {
      takeLeastPrivilege(config, false, log);
      // A DEL is harmless: this plugin does nothing in a sandbox.
      if (request.command !== "DEL") refuseOwnNamespace(request);
      const call = resolveIpamCall(request, config, env, log, signal);
      // Not closed, as in the main plugin (cmd/tortie.ts).
      const datastore = await openDatastore(config, clientEnvironment(request.command, env), ({ message }) =>
        log.error(`stored object: ${message}`),
      );
      const host = createIpamHost({ datastore, log });
      const { ipamAdd, ipamResultOf, ipamRun } = await import("../ipam-plugin/ipam-plugin.ts");
      if (request.command === "ADD") {
        return renderResult(ipamResultOf(await ipamAdd(call, host)), request.cniVersion ?? ABSENT_VERSION);
      }
      await ipamRun(request.command, call, host);
      return undefined;
    },
  };
  return runPlugin(plugin, env);
}

/** host-local's directory in Calico's init container, which mounts the node's (I§7). */
const HOST_LOCAL_DIRECTORY = "/var/lib/cni/networks/k8s-pod-network";

/** Lets a node go on to pools once host-local holds no addresses there; moves none (I§7). @returns the exit status */
function upgrade(env: Environment): number {
  const directory = env.TORTIE_HOST_LOCAL_DIR || HOST_LOCAL_DIRECTORY;
  try {
    refuseHostLocalAddresses(directory);
    print(`${directory}: no addresses of host-local\n`);
    return 0;
  } catch (error) {
    const text = error instanceof TortieError ? `${error.message} (${error.word}: ${error.next})` : messageOf(error);
    printError(`-upgrade: ${text}\n`);
    return 1;
  }
}

/** @throws TortieError `host-local-addresses`; the error of a directory that cannot be read */
function refuseHostLocalAddresses(directory: string): void {
  // host-local names a file after its address (containernetworking/plugins, host-local/backend/disk); "lock" and "last_reserved_ip.0" hold none.
  const held = (unlessMissing(() => readdirSync(directory)) ?? []).filter((name) => parseAddress(name) !== undefined);
  if (held.length === 0) return;
  throw new TortieError(
    "host-local-addresses",
    `${directory}: host-local holds ${held.length} ${held.length === 1 ? "address" : "addresses"}`,
  );
}
