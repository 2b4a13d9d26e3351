/**
 * Reads which networks of this node are the agent's, and which ones the plugins serve themselves: the list of a network says so
 * (`"agent": "require"`), and nothing else does.
 */
import { conflistsIn } from "../../installer/lists.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { readConflist } from "../../lib/cni/runtime/conflist.ts";
import { networkNetconf } from "../../lib/cni/runtime/plugin-call.ts";
import { decodeNetworkConfig, type NetworkConfig } from "../../lib/config/decode.ts";
import type { JsonObject } from "../../lib/json/value.ts";
import { ifReadable } from "../../lib/system/files.ts";

/** Our plugin, under its own name and under Calico's. */
const MAIN_PLUGINS: readonly string[] = ["tortie", "calico"];

/** One list with our plugin in it. */
export interface NodeList {
  readonly file: string;
  readonly config: NetworkConfig;
  /** What the runtime hands to our plugin, apart from a call. */
  readonly netconf: JsonObject;
  readonly isOfAgent: boolean;
}

/** Directory of network configurations, which the DaemonSet mounts under its own name. */
export function netDirOf(env: Environment): string {
  return env.CNI_NET_DIR || "/etc/cni/net.d";
}

/** Lists the networks in the order of runtimes; of two lists of one network the first counts. A list that cannot be read is left out. */
export function nodeLists(directory: string): readonly NodeList[] {
  const found = new Map<string, NodeList>();
  for (const file of ifReadable(() => conflistsIn(directory)) ?? []) {
    const list = listIn(file);
    if (list !== undefined && !found.has(list.config.name)) found.set(list.config.name, list);
  }
  return [...found.values()];
}

/** @returns `undefined` for a list of another product, and for one that runtimes refuse too */
function listIn(file: string): NodeList | undefined {
  try {
    const list = readConflist(file);
    const plugin = list.plugins.find(({ type }) => MAIN_PLUGINS.includes(type));
    if (plugin === undefined) return undefined;
    const netconf = networkNetconf(list, plugin);
    const config = decodeNetworkConfig(netconf);
    return { file, config, netconf, isOfAgent: config.agent.mode === "require" };
  } catch {
    // tortiectl doctor and validate say what is wrong with it.
    return undefined;
  }
}
