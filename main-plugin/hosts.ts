/**
 * Keeps one long-lived `Host` for each datastore that configurations name (A§11.1): lists of one node may name several. Nothing of it
 * belongs to a call; what decides which datastore is opened, and how, is the key.
 */

import { decidingVariables } from "../handover/call-body.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import type { Logger } from "../lib/log/logger.ts";
import { statusIfSeen } from "../lib/system/files.ts";
import { createHost, type Host, type HostParts } from "./host.ts";

export interface HostsOptions {
  readonly log: Pick<Logger, "error">;
  /** What the process puts in the place of the parts of an executable; made once for each datastore. */
  readonly parts?: (config: NetworkConfig, env: Environment) => HostParts;
}

/** What a call came with. */
interface Served {
  readonly config: NetworkConfig;
  readonly env: Environment;
}

/** A host, and the file that it was opened from as it was then. */
interface KeptHost {
  readonly host: Host;
  /** By name, the networks that it has served, each as it was configured last. */
  readonly networks: Map<string, Served>;
  source: string | undefined;
}

/** Calls of a host that was replaced have ended after this. */
const OLD_HOST_STAYS_MS = 180_000;

export class Hosts implements AsyncDisposable {
  readonly #options: HostsOptions;
  readonly #hosts = new Map<string, KeptHost>();

  constructor(options: HostsOptions) {
    this.#options = options;
  }

  /** Returns the host for calls with this configuration and this environment of their caller. Opens nothing yet. */
  of(config: NetworkConfig, env: Environment): Host {
    const key = keyOf(config, env);
    const source = sourceOf(config, env);
    const known = this.#hosts.get(key);
    if (known !== undefined && (known.source === undefined || known.source === source)) {
      known.source = source;
      known.networks.set(config.name, { config, env });
      return known.host;
    }
    if (known !== undefined) closeLater(known.host);
    const { log, parts } = this.#options;
    const host = createHost(config, env, log, parts?.(config, env));
    this.#hosts.set(key, { host, source, networks: new Map([[config.name, { config, env }]]) });
    return host;
  }

  /** Lists the networks that calls have named since this process began, and the host of each. */
  served(): readonly (Served & { readonly host: Host })[] {
    return [...this.#hosts.values()].flatMap(({ host, networks }) => [...networks.values()].map((served) => ({ ...served, host })));
  }

  /** Closes what was opened. */
  async [Symbol.asyncDispose](): Promise<void> {
    const hosts = [...this.#hosts.values()];
    this.#hosts.clear();
    await Promise.allSettled(hosts.map(({ host }) => host[Symbol.asyncDispose]()));
  }
}

function closeLater(host: Host): void {
  setTimeout(() => void Promise.allSettled([host[Symbol.asyncDispose]()]), OLD_HOST_STAYS_MS).unref();
}

/**
 * Identifies the file behind a datastore, by its identity and time: an installer replaces a kubeconfig when its token is renewed, and an
 * operator may put a backup in the place of a local store. `undefined` while there is no such file.
 */
function sourceOf(config: NetworkConfig, env: Environment): string | undefined {
  const isLocal = chooseDatastore(config, env) === "local";
  const path = isLocal ? config.datastorePath : env.CALICO_KUBECONFIG || config.kubernetes.kubeconfig || env.KUBECONFIG;
  const status = path === undefined ? undefined : statusIfSeen(path);
  // A local store is written to all the time.
  return isLocal ? status?.identity : status && `${status.identity} ${status.modified}`;
}

/** Joins everything that `openDatastore` reads of either. */
function keyOf(config: NetworkConfig, env: Environment): string {
  const { datastoreType, datastorePath, etcd, kubernetes, policy, calicoApiGroup, qps, burst } = config;
  return JSON.stringify([{ datastoreType, datastorePath, etcd, kubernetes, policy, calicoApiGroup, qps, burst }, decidingVariables(env)]);
}
