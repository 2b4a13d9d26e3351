/**
 * Keeps one long-lived `Node` for each datastore that configurations name (A§11.1): lists of one node may name several. Nothing of it
 * belongs to a call; what decides which datastore is opened, and how, is the key.
 */

import { decidingVariables } from "../handover/call-body.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import type { Logger } from "../lib/log/logger.ts";
import { statusOf } from "../lib/system/files.ts";
import { createNode, type Node, type NodeParts } from "./node.ts";

export interface NodesOptions {
  readonly log: Pick<Logger, "error">;
  /** What the process puts in the place of the parts of an executable; made once for each datastore. */
  readonly parts?: (config: NetworkConfig, env: Environment) => NodeParts;
}

/** What a call came with. */
interface Served {
  readonly config: NetworkConfig;
  readonly env: Environment;
}

/** A node, and the file that it was opened from as it was then. */
interface KeptNode {
  readonly node: Node;
  /** By name, the networks that it has served, each as it was configured last. */
  readonly networks: Map<string, Served>;
  source: string | undefined;
}

/** Calls of a node that was replaced have ended after this. */
const OLD_NODE_STAYS_MS = 180_000;

export class Nodes implements AsyncDisposable {
  readonly #options: NodesOptions;
  readonly #nodes = new Map<string, KeptNode>();

  constructor(options: NodesOptions) {
    this.#options = options;
  }

  /** Returns the node for calls with this configuration and this environment of their caller. Opens nothing yet. */
  of(config: NetworkConfig, env: Environment): Node {
    const key = keyOf(config, env);
    const source = sourceOf(config, env);
    const known = this.#nodes.get(key);
    if (known !== undefined && (known.source === undefined || known.source === source)) {
      known.source = source;
      known.networks.set(config.name, { config, env });
      return known.node;
    }
    if (known !== undefined) closeLater(known.node);
    const { log, parts } = this.#options;
    const node = createNode(config, env, log, parts?.(config, env));
    this.#nodes.set(key, { node, source, networks: new Map([[config.name, { config, env }]]) });
    return node;
  }

  /** Lists the networks that calls have named since this process began, and the node of each. */
  served(): readonly (Served & { readonly node: Node })[] {
    return [...this.#nodes.values()].flatMap(({ node, networks }) => [...networks.values()].map((served) => ({ ...served, node })));
  }

  /** Closes what was opened. */
  async [Symbol.asyncDispose](): Promise<void> {
    const nodes = [...this.#nodes.values()];
    this.#nodes.clear();
    await Promise.allSettled(nodes.map(({ node }) => node[Symbol.asyncDispose]()));
  }
}

function closeLater(node: Node): void {
  setTimeout(() => void Promise.allSettled([node[Symbol.asyncDispose]()]), OLD_NODE_STAYS_MS).unref();
}

/**
 * Identifies the file behind a datastore, by its identity and time: an installer replaces a kubeconfig when its token is renewed, and an
 * operator may put a backup in the place of a local store. `undefined` while there is no such file.
 */
function sourceOf(config: NetworkConfig, env: Environment): string | undefined {
  const isLocal = chooseDatastore(config, env) === "local";
  const path = isLocal ? config.datastorePath : env.CALICO_KUBECONFIG || config.kubernetes.kubeconfig || env.KUBECONFIG;
  try {
    const status = path === undefined ? undefined : statusOf(path);
    // A local store is written to all the time.
    return isLocal ? status?.identity : status && `${status.identity} ${status.modified}`;
  } catch {
    return undefined;
  }
}

/** Joins everything that `openDatastore` reads of either. */
function keyOf(config: NetworkConfig, env: Environment): string {
  const { datastoreType, datastorePath, etcd, kubernetes, policy, calicoApiGroup, qps, burst } = config;
  return JSON.stringify([{ datastoreType, datastorePath, etcd, kubernetes, policy, calicoApiGroup, qps, burst }, decidingVariables(env)]);
}
