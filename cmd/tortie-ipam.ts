/** Runs the IPAM plugin, `tortie-ipam` or `calico-ipam`, called by a main plugin that is not in the same process (I§1). */

import { resolveIpamCall } from "../ipam-plugin/call.ts";
import { createIpamHost } from "../ipam-plugin/host.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { ABSENT_VERSION, refuseOwnNamespace } from "../lib/cni/request.ts";
import { renderResult } from "../lib/cni/result.ts";
import { clientEnvironment } from "../lib/config/limits.ts";
import { openDatastore } from "../lib/datastore/open.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
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
    upgrade: ["Upgrade from host-local", () => upgrade(env)],
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

async function upgrade(env: Environment): Promise<number> {
  const { upgradeFromHostLocal } = await import("../ipam-plugin/import-host-local/upgrade-from-host-local.ts");
  try {
    print(await upgradeFromHostLocal(env, (message) => printError(`${message}\n`)));
    return 0;
  } catch (error) {
    const text = error instanceof TortieError ? `${error.message.trim()} (${error.word}: ${error.next})` : messageOf(error);
    printError(`-upgrade: ${text}\n`);
    return 1;
  }
}
