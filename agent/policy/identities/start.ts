/**
 * Decides what of identities the agent looks at, and who writes them: the cluster's controller (controller/duties/identities.ts), or this
 * agent where none runs (kept.ts). An ADD does not know of them. Watches begin when something shows identities for the first time, so a
 * node on which nothing does pays nothing.
 */
import { parseCall, requestOf } from "../../../handover/call-body.ts";
import { type EndpointRecord, isCommitted } from "../../../handover/record.ts";
import { chooseDatastore } from "../../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig, type NetworkConfig } from "../../../lib/config/decode.ts";
import { IDENTITIES } from "../../../lib/identity/identity-object.ts";
import { keyOf, type LabelledPod, type LabelSet } from "../../../lib/identity/labels.ts";
import { decodeNamespace, isPodOfUid, type Namespace, type Pod } from "../../../lib/kubernetes/objects.ts";
import type { Informers } from "../../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";
import { SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import { datastoreKeys } from "../../start/configuration.ts";
import type { AgentCluster, AgentContext } from "../../start/context.ts";
import { KeptIdentities, type OwnSets } from "./kept.ts";
import { type NumberedLabels, WatchedIdentities } from "./lookup.ts";

type Labels = Readonly<Record<string, string>>;

/** What policy knows of labels, where it is on. */
export interface PolicyLabels {
  /** @returns `undefined` for a namespace that is not known */
  ofNamespace(name: string): Labels | undefined;
  /** @param pod of this node, "namespace/name" @returns what its runtime said; `undefined` where it is not known */
  ofOwnPod(pod: string): Labels | undefined;
}

interface IdentityCluster extends Pick<AgentCluster, "isDatastore"> {
  readonly informers: Pick<Informers, "watch">;
  readonly pods: Pick<AgentCluster["pods"], "get" | "isUsable">;
}

type KeptCache = Pick<KeptIdentities, "cache"> & Partial<AsyncDisposable>;

/** Waited for at most when somebody asks, so that the first answer is whole. */
const FIRST_ANSWER_MS = 2_000;

/** The endpoints of this node. */
interface OwnEndpoints {
  list(): readonly EndpointRecord[];
  onChange(listener: () => void): void;
}

const NAME = "identities";
/** Changes of pods and records are heard of; this is for labels of namespaces. */
const EVERY_MS = 15_000;
/** Many pods that come at once are looked at once. */
const SOON_MS = 300;

/** Begins to keep identities where no controller of the cluster does. */
export function startIdentities(context: AgentContext, manager: OwnEndpoints): AgentIdentities {
  const { options, env, node, cluster, controllers, health, log } = context;
  const isShown = options["endpoint-objects"];
  if (cluster?.isDatastore === true) return new AgentIdentities(cluster, isShown);
  const own = decodeNetworkConfig({ name: "tortie-node", nodename: node, ...datastoreKeys(options) });
  const isLocal = chooseDatastore(own, env) === "local" && options["datastore-path"] === undefined;
  const config = () => (isLocal ? localNetwork(manager.list()) : own);
  const committed = () => manager.list().filter(isCommitted);
  const kept = new KeptIdentities({ config, env, node, clock: SYSTEM_CLOCK, log }, () => identities.ownSets(committed()));
  const identities = new AgentIdentities(cluster, isShown, kept);
  const run = async (signal: AbortSignal) => {
    if (identities.lookup === undefined) return;
    await kept.run(signal);
    health.health.find(NAME, kept.findings.length === 0 ? undefined : kept.findings.join("; "));
  };
  controllers.update(NAME, { run, intervalMs: EVERY_MS, quiet: true });
  let isDue = false;
  const lookSoon = () => {
    if (isDue) return;
    isDue = true;
    setTimeout(() => {
      isDue = false;
      controllers.trigger(NAME);
    }, SOON_MS).unref();
  };
  manager.onChange(lookSoon);
  cluster?.pods.onChange(lookSoon);
  return identities;
}

/** Finds the local store that a network of this node uses: the agent's options need not name it. */
function localNetwork(records: readonly Pick<EndpointRecord, "request">[]): NetworkConfig | undefined {
  for (const { request } of records) {
    if (request?.call === undefined) continue;
    const call = parseCall(request.call, "ADD");
    const config = decodeNetworkConfig(requestOf(call).netconf);
    if (chooseDatastore(config, call.env) === "local") return config;
  }
  return undefined;
}

export class AgentIdentities implements AsyncDisposable {
  readonly #cluster: IdentityCluster | undefined;
  readonly #kept: KeptCache | undefined;
  readonly #isShown: boolean;
  #policy: PolicyLabels | undefined;
  #lookup: WatchedIdentities | undefined;
  #namespaces: ResourceCache<Namespace> | undefined;
  #synced: Promise<void> = Promise.resolve();

  /**
   * @param isShown something shows identities besides policy
   * @param kept where they are, unless they are objects of the cluster
   */
  constructor(cluster: IdentityCluster | undefined, isShown: boolean, kept?: KeptCache) {
    this.#cluster = cluster;
    this.#kept = kept;
    this.#isShown = isShown && cluster !== undefined;
  }

  /** Notes that policy is on now, and what it knows; `undefined`: it is off. */
  join(policy: PolicyLabels | undefined): void {
    this.#policy = policy;
  }

  /** @returns `undefined` where nothing shows identities */
  get lookup(): WatchedIdentities | undefined {
    if (!this.#isShown && this.#policy === undefined) return undefined;
    this.#lookup ??= this.#begin();
    return this.#lookup;
  }

  /** Begins, and waits for a moment until what is there is known. */
  async ready(): Promise<WatchedIdentities | undefined> {
    const { lookup } = this;
    const over = new AbortController();
    await Promise.race([this.#synced, SYSTEM_CLOCK.sleep(FIRST_ANSWER_MS, over.signal)]);
    over.abort();
    return lookup;
  }

  /** @returns `undefined` for what is no pod, and for a pod whose labels are not known (yet) */
  ofEndpoint({ pod, podUID }: Pick<EndpointRecord, "pod" | "podUID">): NumberedLabels | undefined {
    const { lookup } = this;
    const labelled = lookup && pod !== undefined ? this.#podOf(pod, podUID) : undefined;
    return labelled && lookup?.ofPod(labelled);
  }

  /** @param peer a pod anywhere in the cluster @returns `undefined` where it has no number that is known */
  ofPeer(peer: Omit<LabelledPod, "serviceAccountName"> & { readonly name: string }): number | undefined {
    const { lookup } = this;
    const own = this.#cluster?.pods.get(`${peer.namespace}/${peer.name}`);
    return (own === undefined ? lookup?.ofPeer(peer) : lookup?.ofPod(own)?.number) || undefined;
  }

  /** Lists the sets that endpoints of this node have. @param records of them */
  ownSets(records: readonly Pick<EndpointRecord, "pod" | "podUID">[]): OwnSets {
    const used = new Map<string, LabelSet>();
    let isWhole = this.#cluster?.pods.isUsable !== false;
    for (const { pod, podUID } of records) {
      const labelled = pod === undefined ? undefined : this.#podOf(pod, podUID);
      if (labelled === undefined) continue;
      const labels = this.lookup?.ofPod(labelled)?.labels;
      if (labels === undefined) isWhole = false;
      else used.set(keyOf(labels), { key: keyOf(labels), labels });
    }
    return { used, isWhole };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kept?.[Symbol.asyncDispose]?.();
  }

  #podOf(key: string, uid: string | undefined): LabelledPod | undefined {
    if (this.#cluster !== undefined) {
      const pod = this.#cluster.pods.get(key);
      // Records beside etcd have no UID: its endpoints know their pod by its name.
      const isThePod = (there: Pod) => (uid === undefined ? this.#cluster?.isDatastore === false : isPodOfUid(there, uid));
      return pod !== undefined && isThePod(pod) ? pod : undefined;
    }
    const labels = this.#policy?.ofOwnPod(key);
    return labels && { namespace: key.slice(0, key.indexOf("/")), labels, serviceAccountName: "" };
  }

  #begin(): WatchedIdentities | undefined {
    const namespaceLabels = (name: string) => this.#policy?.ofNamespace(name) ?? this.#watchedNamespaces()?.get(name)?.labels;
    const identities = this.#cluster?.isDatastore ? this.#cluster.informers.watch(IDENTITIES) : this.#kept?.cache;
    if (identities === undefined) return undefined;
    const namespaces = this.#policy === undefined ? this.#watchedNamespaces() : undefined;
    this.#synced = Promise.all([identities.untilSynced(), namespaces?.untilSynced()]).then(() => undefined);
    return new WatchedIdentities(identities, namespaceLabels);
  }

  /** Where policy is on it has them already. */
  #watchedNamespaces(): ResourceCache<Namespace> | undefined {
    if (this.#policy !== undefined) return this.#namespaces;
    const selection = { name: "labels of namespaces", path: "/api/v1/namespaces", decode: decodeNamespace, isMetadataOnly: true };
    this.#namespaces ??= this.#cluster?.informers.watch(selection);
    return this.#namespaces;
  }
}
