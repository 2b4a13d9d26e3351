/**
 * Answers which identity labels have, for what the agent shows: endpoints, drops, objects. Nothing waits for an answer, and a number that
 * is not there is 0.
 */
import { IdentityIndex, type StoredIdentity } from "../../lib/identity/identity-object.ts";
import { keyOf, type Label, type LabelledPod, type LabelSet, labelSetOf, labelsOfPod, withoutAccount } from "../../lib/identity/labels.ts";
import { candidatesOf, RESERVED, reservedNumber } from "../../lib/identity/numbers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";

/** A number with the labels that it stands for. */
export interface NumberedLabels {
  /** 0: the labels have no number (yet). */
  readonly number: number;
  readonly labels: readonly string[];
}

export interface ShownIdentity extends NumberedLabels {
  /** `derived`: computed on this node, since no controller gives numbers. */
  readonly state: "active" | "retired" | "reserved" | "derived";
  /** RFC 3339; empty where it has no object. */
  readonly createdAt: string;
}

export interface IdentityLookup {
  /** @returns the number of a set, reserved ones included; 0 while it has none */
  identityOf(labels: readonly Label[]): number;
  /** @returns `undefined` while the labels of the pod's namespace are not known */
  ofPod(pod: LabelledPod): NumberedLabels | undefined;
  /** Finds the number of a pod whose account is not known. @returns 0 where there is none, or where accounts make several of them */
  ofPeer(pod: Omit<LabelledPod, "serviceAccountName">): number;
  get(number: number): ShownIdentity | undefined;
  /** Lists all but the reserved ones, by their numbers. */
  list(): readonly ShownIdentity[];
}

/** The labels of a namespace; `undefined`: it is not known. */
export type NamespaceLabels = (name: string) => Readonly<Record<string, string>> | undefined;

/** Derived numbers that are remembered; then all are forgotten, and derived again when somebody asks. */
const MOST_DERIVED = 10_000;

/** Finds identities among the objects that the controller writes. */
export class WatchedIdentities implements IdentityLookup {
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

  identityOf(labels: readonly Label[]): number {
    return reservedNumber(labels) ?? this.#numberOf(labelSetOf(labels));
  }

  ofPod(pod: LabelledPod): NumberedLabels | undefined {
    const set = setOf(pod, this.#namespaceLabels);
    return set && { number: this.#numberOf(set), labels: set.labels };
  }

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
      if (number !== undefined) peers.set(peer, (peers.get(peer) ?? new Set()).add(number));
    }
    return peers;
  }
}

/**
 * Derives numbers where no controller gives any: each set that is asked for gets the first candidate that no other set of this node has.
 * Two sets of different nodes may so get one number, with a chance of one in 16 million for each pair.
 */
export class DerivedIdentities implements IdentityLookup {
  readonly #namespaceLabels: NamespaceLabels;
  readonly #hasAccounts: boolean;
  readonly #byKey = new Map<string, ShownIdentity>();
  readonly #byNumber = new Map<number, ShownIdentity>();

  /** @param hasAccounts pods have accounts: of a pod that is asked for without one another number would be derived */
  constructor(namespaceLabels: NamespaceLabels, hasAccounts: boolean) {
    this.#namespaceLabels = namespaceLabels;
    this.#hasAccounts = hasAccounts;
  }

  identityOf(labels: readonly Label[]): number {
    return reservedNumber(labels) ?? this.#numbered(labelSetOf(labels)).number;
  }

  ofPod(pod: LabelledPod): NumberedLabels | undefined {
    const set = setOf(pod, this.#namespaceLabels);
    return set && this.#numbered(set);
  }

  ofPeer(pod: Omit<LabelledPod, "serviceAccountName">): number {
    if (this.#hasAccounts) return RESERVED.unknown;
    return this.ofPod({ ...pod, serviceAccountName: "" })?.number ?? RESERVED.unknown;
  }

  get(number: number): ShownIdentity | undefined {
    return this.#byNumber.get(number) ?? reserved(number);
  }

  list(): readonly ShownIdentity[] {
    return [...this.#byNumber.values()].sort(byNumber);
  }

  #numbered({ key, labels }: LabelSet): NumberedLabels {
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    const number = candidatesOf(key).find((candidate) => !this.#byNumber.has(candidate));
    if (number === undefined) return { number: RESERVED.unknown, labels };
    if (this.#byKey.size >= MOST_DERIVED) {
      this.#byKey.clear();
      this.#byNumber.clear();
    }
    const identity: ShownIdentity = { number, labels, state: "derived", createdAt: "" };
    this.#byKey.set(key, identity);
    this.#byNumber.set(number, identity);
    return identity;
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
