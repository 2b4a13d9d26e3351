/**
 * Decides whose each address is (docs/project/decisions.md, "Policy"). Whoever may patch a pod writes its annotations, so what they say of
 * addresses is a claim (design, invariant 17), and a pod is a peer by those addresses alone that something else proves to be its own:
 *
 *   this node's endpoint, etcd's record   written by plugins, which no tenant can write
 *   the block that has the address        its allocation names the pod; it decides alone
 *   status.podIPs                         where no block has it: kubelet's word
 *   the range of the pod's node           where no block has it and kubelet has not spoken yet (host scope), if nobody else claims it
 *
 * What two pods prove belongs to neither. Pure: no I/O, no clock.
 */
import {
  type Address,
  addressAt,
  contains,
  formatAddress,
  formatPrefix,
  isSameAddress,
  NEVER_A_WORKLOAD,
  type Prefix,
  sizeOf,
} from "../../../lib/addresses/address.ts";
import type { PeerPod } from "../../../policy/model.ts";
import { compareText } from "../../../policy/rules.ts";
import type { ClaimingPod, HeldBlock, PodFacts, RecordedPod } from "./claims.ts";
import { HeldBlocks } from "./held-blocks.ts";
import type { AddressConflict, RefusedClaim } from "./model.ts";

/** Who says that an address is theirs: lists, since a set of one takes 250 bytes, and a large cluster has tens of thousands of addresses. */
interface Claims {
  readonly address: Address;
  /** Keys of pods whose annotations say so. */
  pods: readonly string[];
  /** Keys of records that say so. */
  records: readonly string[];
}

const NONE: readonly string[] = [];

/** What holds of an address. */
interface Judged {
  /** Key of the pod that has it. */
  readonly holder: string | undefined;
  /** Pods that prove it, where another endpoint proves it too. */
  readonly rivals: readonly string[];
  /** Why each other pod that claims it is not believed. */
  readonly refused: ReadonlyMap<string, string>;
}

/** A block of more addresses is not counted through when it comes or goes: claims are looked through instead. */
const MOST_COUNTED = 4096n;

/** Keeps what is claimed and what is proven, and tells of each pod that is a peer. */
export class AddressBook {
  readonly #tell: (key: string, peer: PeerPod | undefined) => void;
  readonly #pods = new Map<string, ClaimingPod>();
  readonly #facts = new Map<string, PodFacts>();
  readonly #records = new Map<string, RecordedPod>();
  /** Records of each pod. */
  readonly #recordsOfPod = new Map<string, readonly string[]>();
  readonly #blocks = new HeldBlocks();
  readonly #ranges = new Map<string, readonly Prefix[]>();
  /** By the address as text. */
  readonly #claims = new Map<string, Claims>();
  /** Claimed addresses that neither a block nor a record has, as texts. */
  readonly #unfounded = new Set<string>();
  readonly #told = new Map<string, PeerPod>();

  constructor(tell: (key: string, peer: PeerPod | undefined) => void) {
    this.#tell = tell;
  }

  /** Some claim stands or falls with what kubelet says: no block and no record has the address. */
  get needsFacts(): boolean {
    return this.#unfounded.size > 0;
  }

  /** Each pod that is a peer, as it was told last. */
  get peers(): ReadonlyMap<string, PeerPod> {
    return this.#told;
  }

  /** Names the pod that has an address. */
  holderOf(address: Address): string | undefined {
    return this.#holderOf(formatAddress(address));
  }

  setPod(key: string, pod: ClaimingPod | undefined): void {
    const before = this.#pods.get(key);
    const touched = new Set([...claimedBy(before).keys(), ...claimedBy(pod).keys()]);
    for (const text of claimedBy(before).keys()) this.#drop(text, "pods", key);
    if (pod === undefined) this.#pods.delete(key);
    else this.#pods.set(key, pod);
    for (const [text, address] of claimedBy(pod)) this.#claim(text, address, "pods", key);
    this.#judgeAgain(touched, [key]);
  }

  setFacts(key: string, facts: PodFacts | undefined): void {
    if (facts === undefined) this.#facts.delete(key);
    else this.#facts.set(key, facts);
    this.#judgeAgain(claimedBy(this.#pods.get(key)).keys(), [key]);
  }

  /** @param id of the record, whichever store has it */
  setRecord(id: string, record: RecordedPod | undefined): void {
    const before = this.#records.get(id);
    const [old, now] = [textsOf(before?.addresses ?? []), textsOf(record?.addresses ?? [])];
    for (const text of old.keys()) this.#drop(text, "records", id);
    for (const key of keysOf(before)) this.#recordsOfPod.set(key, without(this.#recordsOf(key), id));
    if (record === undefined) this.#records.delete(id);
    else this.#records.set(id, record);
    // Sorted: what came first must not matter.
    for (const key of keysOf(record)) this.#recordsOfPod.set(key, [...this.#recordsOf(key), id].sort());
    for (const key of keysOf(before)) if (this.#recordsOf(key).length === 0) this.#recordsOfPod.delete(key);
    for (const [text, address] of now) this.#claim(text, address, "records", id);
    this.#judgeAgain(new Set([...old.keys(), ...now.keys()]), [...keysOf(before), ...keysOf(record)]);
  }

  setBlock(name: string, block: HeldBlock | undefined): void {
    const before = this.#blocks.set(name, block);
    this.#judgeAgain(this.#claimedIn(before, block));
  }

  /** @param ranges that the cluster has given a node, in which its pods have their addresses (host scope) */
  setRanges(node: string, ranges: readonly Prefix[]): void {
    const before = this.#ranges.get(node) ?? [];
    this.#ranges.set(node, ranges);
    const touched = [...before, ...ranges];
    this.#judgeAgain(this.#claimedWhere((address) => touched.some((range) => contains(range, address))));
  }

  conflicts(): readonly AddressConflict[] {
    return [...this.#claims]
      .map(([address, claims]) => ({ address, pods: this.#judge(address, claims).rivals }))
      .filter(({ pods }) => pods.length > 0)
      .sort((one, other) => compareText(one.address, other.address));
  }

  refused(): readonly RefusedClaim[] {
    return [...this.#claims]
      .flatMap(([address, claims]) => [...this.#judge(address, claims).refused].map(([pod, reason]) => ({ address, pod, reason })))
      .sort((one, other) => compareText(one.pod, other.pod) || compareText(one.address, other.address));
  }

  #recordsOf(key: string): readonly string[] {
    return this.#recordsOfPod.get(key) ?? NONE;
  }

  #claim(text: string, address: Address, which: "pods" | "records", key: string): void {
    const claims = this.#claims.getOrInsertComputed(text, () => ({ address, pods: NONE, records: NONE }));
    claims[which] = [...claims[which], key];
  }

  #drop(text: string, which: "pods" | "records", key: string): void {
    const claims = this.#claims.get(text);
    if (claims === undefined) return;
    claims[which] = without(claims[which], key);
    if (claims.pods.length === 0 && claims.records.length === 0) this.#claims.delete(text);
  }

  /** Lists claimed addresses that a change of a block concerns. */
  #claimedIn(before: HeldBlock | undefined, after: HeldBlock | undefined): ReadonlySet<string> {
    if (before !== undefined && after !== undefined && formatPrefix(before.cidr) === formatPrefix(after.cidr)) {
      const texts = new Set([...before.holders.keys(), ...after.holders.keys()]);
      return new Set([...texts].filter((text) => before.holders.get(text) !== after.holders.get(text)));
    }
    return new Set([before, after].flatMap((block) => (block === undefined ? [] : [...this.#claimedInside(block.cidr)])));
  }

  #claimedInside(cidr: Prefix): Iterable<string> {
    const size = sizeOf(cidr);
    if (size > MOST_COUNTED) return this.#claimedWhere((address) => contains(cidr, address));
    return Array.from({ length: Number(size) }, (_, offset) => formatAddress(addressAt(cidr, offset)));
  }

  #claimedWhere(holds: (address: Address) => boolean): readonly string[] {
    return [...this.#claims].filter(([, { address }]) => holds(address)).map(([text]) => text);
  }

  /** Tells of the pods of these addresses, and of these pods, as far as something has changed. */
  #judgeAgain(texts: Iterable<string>, keys: Iterable<string> = []): void {
    const concerned = new Set(keys);
    for (const text of texts) {
      const claims = this.#claims.get(text);
      if (claims === undefined || this.#isFounded(claims)) this.#unfounded.delete(text);
      else this.#unfounded.add(text);
      for (const key of claims?.pods ?? []) concerned.add(key);
      for (const id of claims?.records ?? []) for (const key of keysOf(this.#records.get(id))) concerned.add(key);
    }
    for (const key of concerned) this.#tellOf(key);
  }

  #isFounded({ address, records }: Claims): boolean {
    return records.length > 0 || this.#blocks.of(address) !== undefined;
  }

  #tellOf(key: string): void {
    const [before, after] = [this.#told.get(key), this.#peer(key)];
    if (Bun.deepEquals(before, after)) return;
    if (after === undefined) this.#told.delete(key);
    else this.#told.set(key, after);
    this.#tell(key, after);
  }

  #peer(key: string): PeerPod | undefined {
    const pod = this.#pods.get(key);
    const records = this.#recordsOf(key).flatMap((id) => this.#records.get(id) ?? []);
    const known = pod ?? records[0]?.pod;
    if (known === undefined) return undefined;
    const said = new Map([...records.flatMap(({ addresses }) => [...textsOf(addresses)]), ...claimedBy(pod)]);
    const addresses = [...said].filter(([text]) => this.#holderOf(text) === key).map(([, address]) => address);
    if (addresses.length === 0) return undefined;
    const { namespace, name, labels } = known;
    return { namespace, name, labels, addresses, ports: this.#facts.get(key)?.ports };
  }

  #holderOf(text: string): string | undefined {
    const claims = this.#claims.get(text);
    return claims && this.#judge(text, claims).holder;
  }

  #judge(text: string, { address, pods, records }: Claims): Judged {
    const proven = new Set(records.flatMap((id) => keysOf(this.#records.get(id))));
    const refused = new Map<string, string>();
    const plausible = new Set<string>();
    const block = this.#blocks.of(address);
    for (const key of pods) {
      if (proven.has(key)) continue;
      const word = block === undefined ? this.#wordOfKubelet(key, address) : wordOfBlock(block, key, text);
      if (word === "proven") proven.add(key);
      else if (word === "plausible") plausible.add(key);
      else refused.set(key, word.refused);
    }
    // A container that is no pod has the address: nobody else can.
    const isOthers = records.some((id) => this.#records.get(id)?.pod === undefined);
    const holders = [...(proven.size > 0 || isOthers ? proven : plausible)].sort();
    for (const key of plausible) if (!holders.includes(key)) refused.set(key, "another endpoint has it");
    const isContested = holders.length > 1 || (isOthers && holders.length > 0);
    return { holder: isContested ? undefined : holders[0], rivals: isContested ? holders : [], refused };
  }

  #wordOfKubelet(key: string, address: Address): Word {
    const facts = this.#facts.get(key);
    if (facts === undefined) return { refused: "no block has it, and its status is not known" };
    const { node, isHostNetwork, isFinished, podIPs } = facts;
    if (isHostNetwork) return { refused: "the pod uses its node's network" };
    if (isFinished) return { refused: "the pod has ended" };
    if (podIPs.some((ip) => isSameAddress(ip, address))) return "proven";
    if (podIPs.length > 0) return { refused: "no block has it, and its status names others" };
    if ((this.#ranges.get(node) ?? []).some((range) => contains(range, address))) return "plausible";
    return { refused: "no block has it, its status names none, and it is outside of its node's range" };
  }
}

type Word = "proven" | "plausible" | { readonly refused: string };

function wordOfBlock({ cidr, holders }: HeldBlock, key: string, text: string): Word {
  const holder = holders.get(text);
  return holder === key ? "proven" : { refused: `block ${formatPrefix(cidr)} gives it to ${holder ?? "no pod"}` };
}

/** Lists what a pod claims, without what no workload has. */
function claimedBy(pod: ClaimingPod | undefined): ReadonlyMap<string, Address> {
  return pod?.claim.prove(textsOf) ?? new Map();
}

function textsOf(addresses: readonly Address[]): ReadonlyMap<string, Address> {
  const possible = addresses.filter((address) => !NEVER_A_WORKLOAD.some((range) => contains(range, address)));
  return new Map(possible.map((address) => [formatAddress(address), address]));
}

function keysOf(record: RecordedPod | undefined): readonly string[] {
  return record?.pod === undefined ? [] : [`${record.pod.namespace}/${record.pod.name}`];
}

function without(list: readonly string[], one: string): readonly string[] {
  const rest = list.filter((other) => other !== one);
  return rest.length === 0 ? NONE : rest;
}
