/** Opens what an explanation and a repair look at: this host's kernel, its network configuration, its datastore, and what the agent left. */
import { hostname } from "node:os";
import { LinuxDataplane } from "../../../dataplane/linux/linux-dataplane.ts";
import { HostSockets } from "../../../dataplane/netlink/host-sockets.ts";
import { type RunDirectory, runDirectoryOf } from "../../../handover/run-directory.ts";
import { conflistsIn } from "../../../installer/lists.ts";
import { ResultCache } from "../../../lib/cni/runtime/cache.ts";
import { type Conflist, readConflist } from "../../../lib/cni/runtime/conflist.ts";
import { networkNetconf } from "../../../lib/cni/runtime/plugin-call.ts";
import { decodeNetworkConfig, type NetworkConfig } from "../../../lib/config/decode.ts";
import { nodeName } from "../../../lib/config/node-name.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import { Hosts } from "../../../main-plugin/hosts.ts";
import { openStore, type Store, type StoreOptions } from "../ipam/store.ts";

export interface HereOptions extends StoreOptions {
  /** `undefined`: that of the network configuration, of TORTIE_SOCK, or the default. */
  readonly socket: string | undefined;
  readonly netDir: string;
  readonly cacheDir: string;
}

/** Is a list of this host with a plugin of ours, and what that plugin gets of it. */
export interface OwnList {
  readonly list: Conflist;
  readonly netconf: JsonObject;
  readonly config: NetworkConfig;
}

export interface Sources extends AsyncDisposable {
  readonly options: HereOptions;
  readonly run: RunDirectory;
  readonly host: HostSockets;
  readonly dataplane: LinuxDataplane;
  readonly hosts: Hosts;
  readonly cache: ResultCache;
  /** Lists with a plugin of ours, in the order in which runtimes look at them. */
  readonly lists: readonly OwnList[];
  /** `undefined`: it could not be opened, and `storeProblem` says why. */
  readonly store: Store | undefined;
  readonly storeProblem: unknown;
  /** Is the node's name, as plugins of this host would say it. */
  readonly node: string;
}

const MAIN_PLUGINS: readonly string[] = ["tortie", "calico"];

/** Opens everything; what cannot be opened is said by the explanation and fails nothing. */
export async function openSources(options: HereOptions): Promise<Sources> {
  const lists = conflistsIn(options.netDir).flatMap(ownList);
  const isGiven = options.datastore !== undefined || options.kubeconfig !== undefined;
  const conf = options.conf ?? (isGiven ? undefined : lists[0]?.list.file);
  let store: Store | undefined;
  let storeProblem: unknown;
  try {
    store = await openStore({ ...options, conf });
  } catch (error) {
    storeProblem = error;
  }
  const host = new HostSockets();
  const dataplane = new LinuxDataplane(host);
  const hosts = new Hosts({ log: { error: () => undefined }, parts: () => ({ dataplane }) });
  const config = lists[0]?.config;
  return {
    options,
    run: runDirectoryOf(options.socket ?? config?.agent.socket ?? (process.env.TORTIE_SOCK || undefined)),
    host,
    dataplane,
    hosts,
    cache: new ResultCache(options.cacheDir),
    lists,
    store,
    storeProblem,
    node: config === undefined ? hostname() : nodeName(config),
    async [Symbol.asyncDispose]() {
      await hosts[Symbol.asyncDispose]();
      await store?.[Symbol.asyncDispose]();
      host[Symbol.dispose]();
    },
  };
}

function ownList(file: string): readonly OwnList[] {
  try {
    const list = readConflist(file);
    const plugin = list.plugins.find(({ type }) => MAIN_PLUGINS.includes(type));
    if (plugin === undefined) return [];
    const netconf = networkNetconf(list, plugin);
    return [{ list, netconf, config: decodeNetworkConfig(netconf) }];
  } catch {
    // The explanation says what is wrong with it.
    return [];
  }
}
