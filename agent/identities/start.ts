/**
 * Decides what of identities the agent looks at. It only reads: the controller writes them (controller/duties/identities.ts), and an ADD
 * does not know of them. Their watches begin when somebody asks for the first time, so a node on which nobody does pays nothing.
 */
import type { EndpointRecord } from "../../handover/record.ts";
import { IDENTITIES } from "../../lib/identity/identity-object.ts";
import type { LabelledPod } from "../../lib/identity/labels.ts";
import { decodeNamespace, isPodOfUid, type Namespace } from "../../lib/kubernetes/objects.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import type { AgentCluster } from "../start/context.ts";
import { DerivedIdentities, type IdentityLookup, type NumberedLabels, WatchedIdentities } from "./lookup.ts";

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
  readonly pods: Pick<AgentCluster["pods"], "get">;
}

/** Waited for at most when somebody asks, so that the first answer is whole. */
const FIRST_ANSWER_MS = 2_000;

export class AgentIdentities {
  readonly #cluster: IdentityCluster | undefined;
  readonly #isShown: boolean;
  #policy: PolicyLabels | undefined;
  #lookup: IdentityLookup | undefined;
  #namespaces: ResourceCache<Namespace> | undefined;
  #synced: Promise<void> = Promise.resolve();

  /** @param isShown something shows identities besides policy */
  constructor(cluster: IdentityCluster | undefined, isShown: boolean) {
    this.#cluster = cluster;
    this.#isShown = isShown && cluster !== undefined;
  }

  /** Notes that policy is on now, and what it knows; `undefined`: it is off. */
  join(policy: PolicyLabels | undefined): void {
    this.#policy = policy;
  }

  /** @returns `undefined` where nothing shows identities */
  get lookup(): IdentityLookup | undefined {
    if (!this.#isShown && this.#policy === undefined) return undefined;
    this.#lookup ??= this.#begin();
    return this.#lookup;
  }

  /** Begins, and waits for a moment until what is there is known. */
  async ready(): Promise<IdentityLookup | undefined> {
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

  #podOf(key: string, uid: string | undefined): LabelledPod | undefined {
    if (this.#cluster !== undefined) {
      const pod = this.#cluster.pods.get(key);
      return pod !== undefined && uid !== undefined && isPodOfUid(pod, uid) ? pod : undefined;
    }
    const labels = this.#policy?.ofOwnPod(key);
    return labels && { namespace: key.slice(0, key.indexOf("/")), labels, serviceAccountName: "" };
  }

  #begin(): IdentityLookup {
    const namespaceLabels = (name: string) => this.#policy?.ofNamespace(name) ?? this.#watchedNamespaces()?.get(name)?.labels;
    if (this.#cluster?.isDatastore !== true) return new DerivedIdentities(namespaceLabels, this.#cluster !== undefined);
    const identities = this.#cluster.informers.watch(IDENTITIES);
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
