/** Nodes, blocks and pools from the watches of a Kubernetes API server. */
import { blockCodec } from "../../lib/datastore/calico/block.ts";
import { type ApiGroup, discoverGroup } from "../../lib/datastore/calico/group.ts";
import { poolCodec } from "../../lib/datastore/calico/pool.ts";
import { type Fields, flag, section } from "../../lib/json/decode.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { metadataOf } from "../../lib/kubernetes/objects.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { annotateNode } from "../kubernetes/annotate-node.ts";
import { decodeRoutedNode, routedBlock, routedPool } from "./decode.ts";
import type { ClusterClaims, RoutedBlock, RoutedNode, RoutedPool } from "./model.ts";
import type { RouteSources } from "./sources.ts";

export interface KubernetesSourcesInput {
  readonly connection: ApiConnection;
  readonly informers: Pick<Informers, "watch">;
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
  #blocks: ResourceCache<RoutedBlock | undefined> | undefined;
  #pools: ResourceCache<RoutedPool | undefined> | undefined;

  constructor(input: KubernetesSourcesInput) {
    this.#input = input;
  }

  async start(): Promise<void> {
    if (this.#nodes !== undefined) return;
    const group = this.#usesBlocks ? (this.#input.group ?? (await this.#discover())) : undefined;
    this.#nodes = this.#watch("nodes", "/api/v1/nodes", decodeRoutedNode);
    if (group === undefined) return;
    this.#blocks = this.#watch("ipamblocks", `/apis/${group}/ipamblocks`, decodeBlock, blockCodec.prepare);
    this.#pools = this.#watch("ippools", `/apis/${group}/ippools`, decodePool);
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
    const given = <T>(cache: ResourceCache<T | undefined> | undefined): readonly T[] =>
      (cache?.list() ?? []).filter((value) => value !== undefined);
    return { nodes: given(this.#nodes), blocks: given(this.#blocks), pools: given(this.#pools) };
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

  #watch<T>(name: string, path: string, decode: (object: Fields) => T, prepare?: (json: string) => string): ResourceCache<T> {
    const cache = this.#input.informers.watch<T>({ name: `${name} of all nodes`, path, decode, prepare });
    const tell = () => {
      for (const listener of this.#listeners) listener();
    };
    // A block changes with each of its addresses, and kubelet writes its Node object every few minutes: seldom is that news for routes.
    cache.onChange(({ before, after }) => {
      if (!Bun.deepEquals(before, after)) tell();
    });
    void cache.untilSynced().then(tell, () => undefined);
    return cache;
  }

  /** Where the server is away nothing is concluded about its groups. */
  async #discover(): Promise<ApiGroup> {
    const { connection } = this.#input;
    const answer = await connection.exchange({ method: "GET", path: "/apis" });
    if (answer.status !== 200) throw new Error(`the API server answered ${answer.status} when it was asked for its groups`);
    return discoverGroup({ request: async () => answer.body });
  }
}

/** A block that is marked as deleted is none (I§2.4). */
function decodeBlock(object: Fields): RoutedBlock | undefined {
  const [metadata, spec] = [metadataOf(object), section(object, "spec")];
  if (flag(spec, "deleted")) return undefined;
  return routedBlock(blockCodec.decode({ metadata, spec, status: {} }));
}

function decodePool(object: Fields): RoutedPool | undefined {
  const [metadata, spec, status] = [metadataOf(object), section(object, "spec"), section(object, "status")];
  return routedPool(poolCodec.decode({ metadata, spec, status }), spec);
}
