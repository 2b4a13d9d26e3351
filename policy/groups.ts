/**
 * Puts pods with the same namespace and labels into one group, and knows which active pod peers select each: a peer is asked once a group,
 * not once a pod.
 */
import type { Labels } from "./model.ts";
import type { OwnerPod } from "./owners.ts";
import { compareText, isInNamespace, type PodPeer } from "./rules.ts";
import { selects } from "./selector.ts";

export interface Group {
  readonly key: string;
  readonly namespace: string;
  readonly labels: Labels;
  /** Addresses of its pods. */
  readonly members: Set<string>;
  /** The active peers that select its pods, by key. */
  readonly peers: Map<string, PodPeer>;
}

/** Peers by a label that they need, and those that need none of a few. */
interface Candidates {
  readonly byLabel: Map<string, PodPeer[]>;
  readonly others: PodPeer[];
}

/** Most values of an expression for which groups are found by their labels. */
const MOST_NEEDED = 16;

export class Groups {
  readonly #labelsOf: (namespace: string) => Labels | undefined;
  readonly #groups = new Map<string, Group>();
  readonly #byNamespace = new Map<string, Set<Group>>();
  readonly #byLabel = new Map<string, Set<Group>>();
  readonly #peers = new Map<string, PodPeer>();
  /** The groups that each active peer selects. */
  readonly #selected = new Map<string, Set<Group>>();
  /** Active peers that reach into a namespace. */
  readonly #candidates = new Map<string, Candidates>();

  constructor(labelsOf: (namespace: string) => Labels | undefined) {
    this.#labelsOf = labelsOf;
  }

  /** Enters an address; leave() must be called before it enters another group. */
  enter(address: string, pod: OwnerPod): Group {
    const key = keyOf(pod);
    const group = this.#groups.get(key) ?? this.#create(key, pod);
    group.members.add(address);
    return group;
  }

  leave(address: string, group: Group): void {
    group.members.delete(address);
    if (group.members.size > 0) return;
    this.#groups.delete(group.key);
    removeFrom(this.#byNamespace, group.namespace, group);
    for (const label of labelsOf(group)) removeFrom(this.#byLabel, label, group);
    this.#unselect(group);
  }

  isOf(group: Group, pod: OwnerPod): boolean {
    return group.key === keyOf(pod);
  }

  /** @returns the groups that it selects */
  addPeer(peer: PodPeer): readonly Group[] {
    this.#peers.set(peer.key, peer);
    this.#forgetCandidates(peer);
    const selected = this.#near(peer).filter(({ labels }) => selects(peer.pods, labels));
    for (const group of selected) this.#select(group, peer);
    return selected;
  }

  /** @returns the groups that it selected */
  removePeer(peer: PodPeer): readonly Group[] {
    this.#peers.delete(peer.key);
    this.#forgetCandidates(peer);
    const selected = this.selectedBy(peer);
    for (const { peers } of selected) peers.delete(peer.key);
    this.#selected.delete(peer.key);
    return selected;
  }

  /** The groups that a peer selects. */
  selectedBy(peer: PodPeer): readonly Group[] {
    return [...(this.#selected.get(peer.key) ?? [])];
  }

  /** Asks again who reaches into a namespace whose labels changed. @returns the groups that other peers select now */
  refreshNamespace(namespace: string): readonly Group[] {
    this.#candidates.delete(namespace);
    return [...(this.#byNamespace.get(namespace) ?? [])].filter((group) => {
      const before = [...group.peers.keys()].sort().join("\n");
      this.#unselect(group);
      this.#fill(group);
      return before !== [...group.peers.keys()].sort().join("\n");
    });
  }

  #create(key: string, { namespace, labels }: OwnerPod): Group {
    const group: Group = { key, namespace, labels, members: new Set(), peers: new Map() };
    this.#groups.set(key, group);
    addTo(this.#byNamespace, namespace, group);
    for (const label of labelsOf(group)) addTo(this.#byLabel, label, group);
    this.#fill(group);
    return group;
  }

  #fill(group: Group): void {
    const { byLabel, others } = this.#candidatesFor(group.namespace);
    for (const peers of [others, ...labelsOf(group).map((label) => byLabel.get(label) ?? [])]) {
      for (const peer of peers) if (selects(peer.pods, group.labels)) this.#select(group, peer);
    }
  }

  #select(group: Group, peer: PodPeer): void {
    group.peers.set(peer.key, peer);
    addTo(this.#selected, peer.key, group);
  }

  #unselect(group: Group): void {
    for (const key of group.peers.keys()) removeFrom(this.#selected, key, group);
    group.peers.clear();
  }

  #candidatesFor(namespace: string): Candidates {
    const known = this.#candidates.get(namespace);
    if (known !== undefined) return known;
    const found: Candidates = { byLabel: new Map(), others: [] };
    for (const peer of this.#peers.values()) {
      if (!isInNamespace(peer, namespace, this.#labelsOf(namespace))) continue;
      const needed = neededLabels(peer);
      if (needed === undefined) found.others.push(peer);
      for (const label of needed ?? []) found.byLabel.getOrInsert(label, []).push(peer);
    }
    this.#candidates.set(namespace, found);
    return found;
  }

  #forgetCandidates({ namespaces }: PodPeer): void {
    if (typeof namespaces === "string") this.#candidates.delete(namespaces);
    else this.#candidates.clear();
  }

  /** Groups among which are all that a peer selects, in the namespaces that it reaches into. */
  #near(peer: PodPeer): readonly Group[] {
    const needed = neededLabels(peer);
    if (needed !== undefined) {
      const labelled = needed.flatMap((label) => [...(this.#byLabel.get(label) ?? [])]);
      return labelled.filter(({ namespace }) => isInNamespace(peer, namespace, this.#labelsOf(namespace)));
    }
    if (typeof peer.namespaces === "string") return [...(this.#byNamespace.get(peer.namespaces) ?? [])];
    const namespaces = [...this.#byNamespace].filter(([namespace]) => isInNamespace(peer, namespace, this.#labelsOf(namespace)));
    return namespaces.flatMap(([, groups]) => [...groups]);
  }
}

function keyOf({ namespace, labels }: OwnerPod): string {
  return JSON.stringify([namespace, Object.entries(labels).sort(([one], [other]) => compareText(one, other))]);
}

function labelsOf({ labels }: Group): readonly string[] {
  return Object.entries(labels).map(([key, value]) => labelText(key, value));
}

/** Labels of which a selected pod has one; `undefined` where nothing so simple holds. */
function neededLabels({ pods }: PodPeer): readonly string[] | undefined {
  const requirement = pods.requirements.find(({ operator, values }) => operator === "In" && values.size <= MOST_NEEDED);
  return requirement && [...requirement.values].map((value) => labelText(requirement.key, value));
}

function labelText(key: string, value: string): string {
  return `${key}\n${value}`;
}

export function addTo<T>(sets: Map<string, Set<T>>, key: string, value: T): void {
  sets.getOrInsertComputed(key, () => new Set()).add(value);
}

/** Leaves no empty set behind. */
export function removeFrom<T>(sets: Map<string, Set<T>>, key: string, value: T): void {
  const found = sets.get(key);
  if (found?.delete(value) === true && found.size === 0) sets.delete(key);
}
