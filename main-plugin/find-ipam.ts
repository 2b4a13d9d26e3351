/**
 * Finds the IPAM plugin that a configuration names (C§2.5), which may be any executable of CNI_PATH. When it is the very file that is
 * running, the call is served in this process: same input, same outcome, same errors, without a second process start and a second
 * datastore. In the agent the very file that handed it the call, which says so (A§11.3): the agent's own is another copy of it, in an
 * image.
 */
import { findPlugin } from "../lib/cni/delegate.ts";
import { isRunningExecutable } from "../lib/cni/plugin-file.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import { HOST_SCOPE } from "../lib/config/ipam-section.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { baseName } from "../lib/system/files.ts";

const OUR_NAMES = new Set(["tortie-ipam", "calico-ipam"]);
/** Main plugins. Behind a forwarder, whose file is another one than the program's, such a call would come back here without end. */
const MAIN_NAMES = new Set(["tortie", "tortie-main", "calico", "calico-main"]);

/** The executable that `ipam.type` names. */
export interface IpamPlugin {
  readonly executable: string;
  /** It is the file that runs, or that handed the call to the agent, and may be served by this process. */
  readonly isInProcess: boolean;
  /** Tortie's own plugin, by either name: it returns routes on purpose, and none for a migration target (C§2.3 S9). */
  readonly isOurs: boolean;
}

/** @throws TortieError `delegate-not-found` when CNI_PATH holds no such plugin, `netconf-value` */
export function findIpam(request: Pick<CniRequest, "path" | "ownIpam">, { ipam }: Pick<NetworkConfig, "ipam">): IpamPlugin {
  // The process that serves the main plugin serves this one too, since no program has its name.
  if (ipam.type === HOST_SCOPE) return { executable: HOST_SCOPE, isInProcess: true, isOurs: true };
  // An agent need not see the file: it does what the caller would have done.
  if (request.ownIpam === true && ipam.inProcess && OUR_NAMES.has(ipam.type)) {
    return { executable: ipam.type, isInProcess: true, isOurs: true };
  }
  const executable = findPlugin(ipam.type, request.path);
  const isSelf = request.ownIpam === true || isRunningExecutable(executable);
  if (MAIN_NAMES.has(ipam.type) || (isSelf && !OUR_NAMES.has(baseName(executable)))) {
    throw new TortieError("netconf-value", `ipam.type "${ipam.type}" names a main plugin, not an IPAM plugin`);
  }
  return { executable, isInProcess: isSelf && ipam.inProcess, isOurs: OUR_NAMES.has(ipam.type) };
}

/** Says whether the call will execute another program for its addresses; one that cannot be found is not executed. */
export function executesIpam(request: Pick<CniRequest, "path" | "ownIpam">, config: Pick<NetworkConfig, "ipam">): boolean {
  try {
    return !findIpam(request, config).isInProcess;
  } catch {
    return false;
  }
}
