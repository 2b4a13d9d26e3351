/**
 * Shows the cluster's identities and namespaces as the watches have them. They are apart from the lists of ClusterView: a cluster without
 * the right to one of them, or without the kind, goes on releasing addresses.
 */
import { IDENTITIES, type StoredIdentity } from "../../lib/identity/identity-object.ts";
import { type LabelledPod, type LabelSet, labelSetOf, labelsOfPod } from "../../lib/identity/labels.ts";
import { decodeNamespace, type Namespace } from "../../lib/kubernetes/objects.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { CacheState, ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";

/** A pod as far as its identity depends on it. */
interface IdentifiedPod extends LabelledPod {
  readonly isHostNetwork: boolean;
  readonly isFinished: boolean;
  /** Empty while it is on no node. */
  readonly node: string;
}

export class IdentityView {
  readonly #namespaces: ResourceCache<Namespace>;
  readonly #identities: ResourceCache<StoredIdentity>;
  /** The set of a pod as long as neither the pod nor its namespace changes. */
  readonly #sets = new WeakMap<IdentifiedPod, { readonly namespace: Namespace; readonly set: LabelSet }>();

  /** Begins the watches. */
  constructor(informers: Pick<Informers, "watch">) {
    this.#namespaces = informers.watch({ name: "namespaces", path: "/api/v1/namespaces", decode: decodeNamespace });
    this.#identities = informers.watch(IDENTITIES);
  }

  states(): readonly CacheState[] {
    return [this.#namespaces.state, this.#identities.state];
  }

  /** Waits for the first complete list of each. @throws the signal's reason */
  async untilSynced(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#namespaces.untilSynced(signal), this.#identities.untilSynced(signal)]);
  }

  /** Says why the lists cannot be relied on now; `undefined` when each is complete and followed without a gap. */
  get gap(): string | undefined {
    const missing = this.states().find(({ isSynced, followedSince }) => !isSynced || followedSince === undefined);
    return missing && `${missing.name} are not complete${missing.problem === undefined ? "" : `: ${missing.problem}`}`;
  }

  /** Says since when both lists have been followed without a gap, in milliseconds of a clock that never jumps. */
  get followedSince(): number {
    return Math.max(...this.states().map(({ followedSince = 0 }) => followedSince));
  }

  get identities(): readonly StoredIdentity[] {
    return this.#identities.list();
  }

  /** @returns `undefined` for a pod that has no endpoint, and for one whose namespace is not known */
  setOf(pod: IdentifiedPod): LabelSet | undefined {
    if (pod.isHostNetwork || pod.isFinished || pod.node === "") return undefined;
    const namespace = this.#namespaces.get(pod.namespace);
    if (namespace === undefined) return undefined;
    const known = this.#sets.get(pod);
    if (known?.namespace === namespace) return known.set;
    const set = labelSetOf(labelsOfPod(pod, namespace.labels));
    this.#sets.set(pod, { namespace, set });
    return set;
  }
}
