/**
 * Reads nodes, blocks and pools from the watches of a Kubernetes API server, as routes need them: little of each, since an agent keeps
 * those of the whole cluster.
 */

import { bitsOf, type Family, maskPrefix, type Prefix, parseAddress, parsePrefix } from "../../lib/addresses/address.ts";
import type { WatchedBlock } from "../../lib/datastore/calico/block.ts";
import { type ApiGroup, discoverGroup } from "../../lib/datastore/calico/codec.ts";
import type { WatchedPool } from "../../lib/datastore/calico/pool.ts";
import type { IPPool } from "../../lib/datastore/resources.ts";
import { type Fields, field, has, isText, listOf, objects, section, text, texts } from "../../lib/json/decode.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { decodeNode } from "../../lib/kubernetes/objects.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { Claimed } from "../../lib/system/claimed.ts";
import { rangeAnnotation } from "../addresses/ranges/annotations.ts";
import { annotateNode } from "../addresses/ranges/node-object.ts";
import {
  byFamily,
  type ClusterClaims,
  type Mode,
  type RoutedBlock,
  type RoutedNode,
  type RoutedPool,
  type RouteSources,
  type TunnelEnd,
  VXLAN,
} from "./model.ts";
import { NODE_ANNOTATIONS } from "./own-node.ts";

interface KubernetesSourcesInput {
  readonly connection: ApiConnection;
  readonly informers: Pick<Informers, "watch">;
  /** The agent's one watch of the pools. */
  readonly pools: (group: ApiGroup) => ResourceCache<WatchedPool>;
  /** The agent's one watch of the blocks. */
  readonly blocks: (group: ApiGroup) => ResourceCache<WatchedBlock | undefined>;
  readonly node: string;
  /** Where addresses come from: blocks of pools, or the nodes' own ranges (host scope). */
  readonly addressing: "blocks" | "ranges";
  /** As configured; `undefined`: the server is asked. */
  readonly group: ApiGroup | undefined;
}

export class KubernetesSources implements RouteSources {
  readonly #input: KubernetesSourcesInput;
  readonly #listeners: (() => void)[] = [];
  #nodes: ResourceCache<RoutedNode> | undefined;
  #blocks: ResourceCache<WatchedBlock | undefined> | undefined;
  #pools: ResourceCache<WatchedPool> | undefined;

  constructor(input: KubernetesSourcesInput) {
    this.#input = input;
  }

  async start(): Promise<void> {
    if (this.#nodes !== undefined) return;
    const group = this.#usesBlocks ? (this.#input.group ?? (await discoverServedGroup(this.#input.connection))) : undefined;
    this.#nodes = this.#input.informers.watch({ name: "nodes of all nodes", path: "/api/v1/nodes", decode: decodeRoutedNode });
    this.#tellOf(this.#nodes, (node) => node);
    if (group === undefined) return;
    this.#blocks = this.#input.blocks(group);
    this.#tellOf(this.#blocks, (block) => block && routedBlock(block));
    this.#pools = this.#input.pools(group);
    this.#tellOf(this.#pools, (pool) => pool && routed(pool));
  }

  get gap(): string | undefined {
    for (const cache of this.#usesBlocks ? [this.#nodes, this.#blocks, this.#pools] : [this.#nodes]) {
      if (cache === undefined) return "nothing is watched yet";
      const { name, isSynced, followedSince, problem } = cache.state;
      const cause = problem === undefined ? "" : `: ${problem}`;
      if (!isSynced) return `${name} have not been read yet${cause}`;
      if (followedSince === undefined) return `changes of ${name} are not being heard of${cause}`;
    }
    return undefined;
  }

  get claims(): ClusterClaims {
    return {
      nodes: this.#nodes?.list() ?? [],
      blocks: (this.#blocks?.list() ?? []).flatMap((block) => (block === undefined ? [] : [routedBlock(block)])),
      pools: (this.#pools?.list() ?? []).flatMap((pool) => routed(pool) ?? []),
    };
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  annotate(annotations: Readonly<Record<string, string | null>>): Promise<void> {
    return annotateNode(this.#input.connection, this.#input.node, annotations);
  }

  get #usesBlocks(): boolean {
    return this.#input.addressing === "blocks";
  }

  /** @param used what routes use of an object: a block changes with each of its addresses, a Node with each of kubelet's reports */
  #tellOf<T>(cache: ResourceCache<T>, used: (value: T | undefined) => unknown): void {
    const tell = () => {
      for (const listener of this.#listeners) listener();
    };
    cache.onChange(({ before, after }) => {
      if (!Bun.deepEquals(used(before), used(after))) tell();
    });
    void cache.untilSynced().then(tell, () => undefined);
  }
}

/** Asks which group the server has, and concludes nothing while it is away. @throws Error */
export async function discoverServedGroup(connection: Pick<ApiConnection, "exchange">): Promise<ApiGroup> {
  const answer = await connection.exchange({ method: "GET", path: "/apis" });
  if (answer.status !== 200) throw new Error(`the API server answered ${answer.status} when it was asked for its groups`);
  return discoverGroup({ request: async () => answer.body });
}

function routed({ stored, spec }: WatchedPool): RoutedPool | undefined {
  return routedPool(stored.value, spec);
}

const MAC = /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/;

/** Decodes a Node object of Kubernetes. A malformed annotation counts as absent. @throws Error naming the field */
export function decodeRoutedNode(object: Fields): RoutedNode {
  const metadata = section(object, "metadata");
  const annotations = texts(metadata, "annotations");
  const internal = objects(section(object, "status"), "addresses")
    .filter((one) => text(one, "type") === "InternalIP")
    .flatMap((one) => parseAddress(text(one, "address")) ?? []);
  return {
    name: text(metadata, "name"),
    createdAt: text(metadata, "creationTimestamp"),
    recorded: byFamily((family) => ofFamily(prefixOrAddress(annotations[NODE_ANNOTATIONS.address[family]] ?? ""), family)),
    internal: byFamily((family) => internal.find((address) => address.family === family)),
    labels: decodeNode(object).labels,
    given: givenRanges(section(object, "spec")),
    claims: {
      tunnels: byFamily((family) => claimed(tunnelEnd(annotations, family))),
      ranges: byFamily((family) => claimed(annotatedRange(annotations, family))),
    },
  };
}

function tunnelEnd(annotations: Readonly<Record<string, string>>, family: Family): TunnelEnd | undefined {
  const address = parseAddress(annotations[NODE_ANNOTATIONS.tunnelAddress[family]] ?? "");
  if (address?.family !== family) return undefined;
  const mac = annotations[NODE_ANNOTATIONS.tunnelMac[family]]?.toLowerCase() ?? "";
  return MAC.test(mac) ? { address, mac } : { address };
}

function givenRanges(spec: Fields): readonly Prefix[] {
  const texts = has(spec, "podCIDRs") ? field(spec, "podCIDRs", listOf(isText)) : [];
  return texts.flatMap((one) => parsePrefix(one) ?? []).map(maskPrefix);
}

function annotatedRange(annotations: Readonly<Record<string, string>>, family: Family): Prefix | undefined {
  const range = ofFamily(parsePrefix(annotations[rangeAnnotation(family)] ?? ""), family);
  return range && maskPrefix(range);
}

function claimed<T>(value: T | undefined): Claimed<T> | undefined {
  return value === undefined ? undefined : new Claimed(value);
}

/** Keeps of a block what leads packets. Addresses of Services belong to no node (I§0). */
export function routedBlock({ cidr, affinity, allocated }: WatchedBlock): RoutedBlock {
  const owner = affinity?.type === "host" ? affinity.name : undefined;
  const used = allocated.flatMap(({ address, node, type }) => (node === undefined ? [] : [{ address, node, type }]));
  const placed = ({ address, node }: (typeof used)[number]) => ({ address, node });
  return {
    cidr,
    ...(owner === undefined ? {} : { owner }),
    isUsed: used.some(({ type }) => type === undefined),
    borrowed: used.filter(({ node }) => node !== owner).map(placed),
    tunnelEnds: used.filter(({ type }) => type === VXLAN[cidr.address.family].attributeType).map(placed),
  };
}

/** Leaves out a pool whose CIDR cannot be read. @param spec of the stored object, for what addresses do not depend on */
export function routedPool(pool: IPPool, spec: Fields): RoutedPool | undefined {
  const cidr = parsePrefix(pool.cidr);
  if (cidr === undefined) return undefined;
  return {
    name: pool.name,
    cidr,
    vxlanMode: modeOf(text(spec, "vxlanMode")),
    ipipMode: modeOf(text(spec, "ipipMode")),
    natOutgoing: pool.natOutgoing,
    servesTunnels: !pool.disabled && !pool.deleting && pool.allowedUses.includes("Tunnel"),
    isDeleting: pool.deleting,
    nodeSelector: pool.nodeSelector,
  };
}

function modeOf(word: string): Mode {
  return word === "Always" || word === "CrossSubnet" ? word : "Never";
}

function prefixOrAddress(text: string): Prefix | undefined {
  const address = parseAddress(text);
  return address === undefined ? parsePrefix(text) : { address, length: bitsOf(address.family) };
}

function ofFamily(prefix: Prefix | undefined, family: Family): Prefix | undefined {
  return prefix?.address.family === family ? prefix : undefined;
}
