/** Which IPAM plugin a configuration means (C§2.5). */
import { findPlugin, isRunningExecutable } from "../lib/cni/find-plugin.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { baseName } from "../lib/system/files.ts";

const OUR_NAMES = new Set(["tortie-ipam", "calico-ipam"]);

/** The executable that `ipam.type` names. */
export interface IpamPlugin {
  readonly executable: string;
  /** It is the file that runs. */
  readonly isSelf: boolean;
  readonly isOurs: boolean;
}

/** @throws TortieError `delegate-not-found` when CNI_PATH holds no such plugin, `netconf-value` */
export function findIpam(request: Pick<CniRequest, "path">, config: Pick<NetworkConfig, "ipam">): IpamPlugin {
  const executable = findPlugin(config.ipam.type, request.path);
  const isSelf = isRunningExecutable(executable);
  if (isSelf && !OUR_NAMES.has(baseName(executable))) {
    throw new TortieError("netconf-value", `ipam.type "${config.ipam.type}" names this main plugin itself, not an IPAM plugin`);
  }
  return { executable, isSelf, isOurs: OUR_NAMES.has(config.ipam.type) };
}

/** Whether the plugin's verbs are served in this process. */
export function isInProcess({ isSelf }: IpamPlugin, { ipam }: Pick<NetworkConfig, "ipam">): boolean {
  return isSelf && ipam.inProcess;
}
