/**
 * What `tortiectl cni status` says beside the plugins' own answers: STATUS must not fail for conditions that pass without a
 * change of the configuration, but people want to know about them.
 */
import { existsSync } from "node:fs";
import { createIpamNode } from "../../../ipam-plugin/node.ts";
import { ipamFindings } from "../../../ipam-plugin/status.ts";
import type { Environment } from "../../../lib/cni/environment.ts";
import type { Conflist, PluginConf } from "../../../lib/cni/runtime/conflist.ts";
import { networkNetconf } from "../../../lib/cni/runtime/plugin-call.ts";
import { chooseDatastore } from "../../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import type { NetworkConfig } from "../../../lib/config/network-config.ts";
import { nodeName } from "../../../lib/config/node-name.ts";
import { openDatastore } from "../../../lib/datastore/open.ts";
import { messageOf } from "../../../lib/errors/errors.ts";

const IPAM_PLUGINS = ["tortie-ipam", "calico-ipam"];

/** One text for each finding about one plugin of the list; a failure to look is a finding too. */
export async function findingsOf(list: Conflist, plugin: PluginConf, env: Environment): Promise<readonly string[]> {
  try {
    const config = decodeNetworkConfig(networkNetconf(list, plugin));
    return IPAM_PLUGINS.includes(config.ipam.type) ? await findingsIn(config, env) : [];
  } catch (error) {
    return [messageOf(error)];
  }
}

async function findingsIn(config: NetworkConfig, env: Environment): Promise<readonly string[]> {
  // Looking must not create the file; the first ADD does.
  if (chooseDatastore(config, env) === "local" && !existsSync(config.datastorePath)) return [];
  await using datastore = await openDatastore(config, env);
  const node = createIpamNode({ datastore, log: { error() {} } });
  return (await ipamFindings({ config, nodeName: nodeName(config) }, node)).map(({ message }) => message);
}
