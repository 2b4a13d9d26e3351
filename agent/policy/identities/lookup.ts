/**
 * Answers which identity labels have, for what the agent shows: endpoints, drops, objects. Nothing waits for an answer, and a number that
 * is not there is 0.
 */
import { IdentityIndex, type StoredIdentity } from "../../../lib/identity/identity-object.ts";
import {
  keyOf,
  type Label,
  type LabelledPod,
  type LabelSet,
  labelSetOf,
  labelsOfPod,
  withoutAccount,
} from "../../../lib/identity/labels.ts";
import { RESERVED, reservedNumber } from "../../../lib/identity/numbers.ts";
import type { ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";

/** A number with the labels that it stands for. */
export interface NumberedLabels {
  /** 0: the labels have no number (yet). */
  readonly number: number;
  readonly labels: readonly string[];
}

export interface ShownIdentity extends NumberedLabels {
  readonly state: "active" | "retired" | "reserved";
  /** RFC 3339; empty where it has no object. */
  readonly createdAt: string;
}

/** The labels of a namespace; `undefined`: it is not known. */
export type NamespaceLabels = (name: string) => Readonly<Record<string, string>> | undefined;

/** Finds identities among those that a watch shows. */
export class WatchedIdentities {
  readonly #cache: Pick<ResourceCache<StoredIdentity>, "list">;
  readonly #namespaceLabels: NamespaceLabels;
  /** `undefined` since an object has changed. */
  #index: IdentityIndex | undefined;
  /** Numbers of each set without its account. */
  #byPeer: ReadonlyMap<string, ReadonlySet<number>> | undefined;

  constructor(cache: Pick<ResourceCache<StoredIdentity>, "list" | "onChange">, namespaceLabels: NamespaceLabels) {
    this.#cache = cache;
    this.#namespaceLabels = namespaceLabels;
    cache.onChange(() => {
      this.#index = undefined;
      this.#byPeer = undefined;
    });
  }

  /** @returns the number of a set, reserved ones included; 0 while it has none */
  identityOf(labels: readonly Label[]): number {
    return reservedNumber(labels) ?? this.#numberOf(labelSetOf(labels));
  }

  /** @returns `undefined` while the labels of the pod's namespace are not known */
  ofPod(pod: LabelledPod): NumberedLabels | undefined {
    const set = setOf(pod, this.#namespaceLabels);
    return set && { number: this.#numberOf(set), labels: set.labels };
  }

  /** Finds the number of a pod whose account is not known. @returns 0 where there is none, or where accounts make several of them */
  ofPeer(pod: Omit<LabelledPod, "serviceAccountName">): number {
    const set = setOf({ ...pod, serviceAccountName: "" }, this.#namespaceLabels);
    this.#byPeer ??= this.#peers();
    const [only, ...others] = (set && this.#byPeer.get(set.key)) ?? [];
    return only === undefined || others.length > 0 ? RESERVED.unknown : only;
  }

  get(number: number): ShownIdentity | undefined {
    const found = this.#indexed().get(number);
    return found === undefined ? reserved(number) : shown(found);
  }

  /** Lists all but the reserved ones, by their numbers. */
  list(): readonly ShownIdentity[] {
    return this.#cache.list().map(shown).sort(byNumber);
  }

  #numberOf({ key }: LabelSet): number {
    return this.#indexed().of(key)?.number ?? RESERVED.unknown;
  }

  #indexed(): IdentityIndex {
    this.#index ??= new IdentityIndex(this.#cache.list());
    return this.#index;
  }

  #peers(): ReadonlyMap<string, ReadonlySet<number>> {
    const peers = new Map<string, Set<number>>();
    for (const { key, labels } of this.#cache.list()) {
      const number = this.#indexed().of(key)?.number;
      const peer = keyOf(withoutAccount(labels));
      if (number !== undefined) peers.getOrInsertComputed(peer, () => new Set()).add(number);
    }
    return peers;
  }
}

function setOf(pod: LabelledPod, namespaceLabels: NamespaceLabels): LabelSet | undefined {
  const labels = namespaceLabels(pod.namespace);
  return labels && labelSetOf(labelsOfPod(pod, labels));
}

function shown({ number, labels, state, createdAt }: StoredIdentity): ShownIdentity {
  return { number, labels, state, createdAt };
}

function reserved(number: number): ShownIdentity | undefined {
  const name = Object.entries(RESERVED).find(([, of]) => of === number && of !== RESERVED.unknown)?.[0];
  return name === undefined ? undefined : { number, labels: [`reserved:${name}`], state: "reserved", createdAt: "" };
}

function byNumber(one: ShownIdentity, other: ShownIdentity): number {
  return one.number - other.number;
}
