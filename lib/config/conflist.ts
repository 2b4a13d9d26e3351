/** Finds the network configuration that a list of plugins gives to ours. */
import { readConflist } from "../cni/runtime/conflist.ts";
import { networkNetconf } from "../cni/runtime/plugin-call.ts";
import { TortieError } from "../errors/errors.ts";
import type { NetworkConfig } from "./decode.ts";
import { decodeNetworkConfig } from "./decode.ts";

/** Plugins that keep their addresses in one of our datastores. */
const MAIN_PLUGINS = ["tortie", "calico"];
const IPAM_PLUGINS = ["tortie-ipam", "calico-ipam"];

/**
 * Reads what tortie, or tortie-ipam under another main plugin, gets of a list.
 * @throws TortieError `conflist-unreadable`, `conflist-invalid`
 */
export function configOfConflist(file: string): NetworkConfig {
  const list = readConflist(file);
  const configs = list.plugins.map((plugin) => ({ plugin, config: () => decodeNetworkConfig(networkNetconf(list, plugin)) }));
  const main = configs.find(({ plugin }) => MAIN_PLUGINS.includes(plugin.type));
  const found = main ?? configs.find(({ config }) => IPAM_PLUGINS.includes(config().ipam.type));
  if (found === undefined) {
    throw new TortieError(
      "conflist-invalid",
      `${file}: no plugin of type ${MAIN_PLUGINS.join(", ")}, and none with ipam.type ${IPAM_PLUGINS.join(", ")}`,
    );
  }
  return found.config();
}
