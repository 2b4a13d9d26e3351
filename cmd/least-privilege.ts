/** Makes a plugin safer before it begins: gives up what it has no use for, and warns of files that others may change. */
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import { messageOf } from "../lib/errors/errors.ts";
import type { Logger } from "../lib/log/logger.ts";
import { directoryOf } from "../lib/system/files.ts";
import { dropPrivileges, exposureOf, preventCoreDumps } from "../lib/system/privileges.ts";

/** Holds the network configurations of runtimes. */
const CONFIGURATIONS = "/etc/cni/net.d";

/**
 * Gives up privileges before the program starts a thread (lib/system/privileges.ts). A kernel or a sandbox that refuses fails nothing.
 * @param executesOthers another plugin's program inherits the remaining privileges and may need more
 */
export function takeLeastPrivilege(config: Pick<NetworkConfig, "dropPrivileges">, executesOthers: boolean, log: Logger): void {
  try {
    preventCoreDumps();
    if (config.dropPrivileges && !executesOthers) dropPrivileges();
  } catch (error) {
    log.info(`privileges are kept: ${messageOf(error)}`);
  }
}

/** Warns once for each container, in the log. */
export function warnOfExposedFiles({ command }: CniRequest, config: NetworkConfig, log: Logger): void {
  if (command !== "ADD") return;
  const trusted = [
    { path: directoryOf(process.execPath), isSecret: false },
    { path: CONFIGURATIONS, isSecret: false },
    { path: config.datastorePath, isSecret: true },
    ...(config.kubernetes.kubeconfig === undefined ? [] : [{ path: config.kubernetes.kubeconfig, isSecret: true }]),
  ];
  for (const file of trusted) {
    const exposure = exposureOf(file);
    if (exposure !== undefined) log.info(`warning: ${exposure}`);
  }
}
