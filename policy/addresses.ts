/** Keeps the class of each pod's address and of each interval of addresses, and learns of changes only where they are. */
import type { AddressInterval, ClassName } from "../dataplane/packet-policy.ts";
import type { Address } from "../lib/addresses/address.ts";
import type { ActivePort, Difference } from "./active.ts";
import { type FlatInterval, flatten, intervalOf } from "./blocks.ts";
import { ANY_PEER, type ClassTable, classOf, type PeerClass, type Predicate, peerPredicate, portPredicate } from "./classes.ts";
import type { Group, Groups } from "./groups.ts";
import type { EngineChange } from "./model.ts";
import type { OwnerPod, Owners } from "./owners.ts";
import { portNumbers } from "./profile.ts";
import type { BlockPeer, Peer } from "./rules.ts";

/** What is kept of one pod's address. */
interface Known {
  readonly address: Address;
  readonly pod: OwnerPod;
  readonly group: Group;
  readonly peers: PeerClass;
}

export class Addresses {
  /** Class of each pod's address that satisfies a predicate. */
  readonly classes = new Map<string, ClassName>();
  /** Disjoint, sorted. */
  intervals: readonly AddressInterval[] = [];
  #taken: readonly AddressInterval[] = [];
  readonly #owners: Owners;
  readonly #groups: Groups;
  readonly #table: ClassTable;
  readonly #known = new Map<string, Known>();
  readonly #blocks = new Map<string, BlockPeer>();
  /** Named ports that rules in force mention, by their peer. */
  readonly #ports = new Map<string, Map<string, ActivePort>>();
  #flat: readonly FlatInterval[] = [];
  #classesOfIntervals: readonly PeerClass[] = [];
  /** Classes of a group's pods by their blocks and named ports, while the same peers select the group. */
  readonly #combined = new Map<Group, Map<string, PeerClass>>();
  readonly #dirty = new Set<string>();
  /** At the last taking, of addresses that were looked at since; `undefined`: no pod had the address. */
  readonly #before = new Map<string, PeerClass | undefined>();

  constructor(owners: Owners, groups: Groups, table: ClassTable) {
    this.#owners = owners;
    this.#groups = groups;
    this.#table = table;
  }

  /** Looks at addresses again at the next update. */
  touch(addresses: Iterable<string>): void {
    for (const address of addresses) this.#dirty.add(address);
  }

  /** Looks at the addresses of groups again that other peers select than before. */
  touchGroups(groups: Iterable<Group>): void {
    for (const group of groups) {
      this.#combined.delete(group);
      this.touch(group.members);
    }
  }

  /** Finds the class of any address. */
  classAt(text: string, address: Address): ClassName {
    const { blocks = [] } = intervalOf(this.#flat, address) ?? {};
    return this.classes.get(text) ?? classOf(blocks.map(peerPredicate)).name;
  }

  changePeers({ added, removed }: Difference<Peer>): void {
    for (const peer of removed) if (peer.kind === "pods") this.touchGroups(this.#groups.removePeer(peer));
    for (const peer of added) if (peer.kind === "pods") this.touchGroups(this.#groups.addPeer(peer));
    this.#changeBlocks(removed.filter(isBlock), added.filter(isBlock));
  }

  changePorts({ added, removed }: Difference<ActivePort>): void {
    if (removed.length + added.length === 0) return;
    this.#combined.clear();
    for (const port of removed) this.#removePort(port);
    for (const port of added) this.#addPort(port);
    for (const { peer } of [...removed, ...added]) {
      if (peer?.kind === "pods") this.touchGroups(this.#groups.selectedBy(peer));
      else this.touch(this.#known.keys());
    }
  }

  /** The intervals as of the last `takeIntervals()`. */
  get takenIntervals(): readonly AddressInterval[] {
    return this.#taken;
  }

  /** The intervals, if they are others than at the last call. */
  takeIntervals(): readonly AddressInterval[] | undefined {
    const [before, after] = [this.#taken, this.intervals];
    if (before === after) return undefined;
    this.#taken = after;
    return before.length === after.length && before.every((one, index) => isSame(one, after[index])) ? undefined : after;
  }

  /** Number of addresses that the next update has to look at. */
  get waiting(): number {
    return this.#dirty.size;
  }

  /** Brings touched addresses up to date. @param most of them */
  update(most: number): void {
    let left = most;
    for (const text of this.#dirty) {
      if (left-- <= 0) return;
      if (!this.#before.has(text)) this.#before.set(text, this.#known.get(text)?.peers);
      this.#dirty.delete(text);
      this.#update(text);
    }
  }

  /** The addresses whose class changed since the last call, sorted, and those among them that a pod had before. */
  takeChanged(): Pick<EngineChange, "addresses" | "moved"> {
    const addresses = new Map<string, ClassName | undefined>();
    const moved: string[] = [];
    for (const text of [...this.#before.keys()].sort()) {
      const [before, after] = [this.#before.get(text), this.classes.get(text)];
      if ((before && mentionedName(before)) === after) continue;
      addresses.set(text, after);
      if (before !== undefined) moved.push(text);
    }
    this.#before.clear();
    return { addresses, moved };
  }

  #update(text: string): void {
    const pod = this.#owners.podAt(text);
    const known = this.#known.get(text);
    if (pod === undefined) {
      if (known !== undefined) this.#forget(text, known);
      return;
    }
    const address = known?.address ?? this.#owners.addressOf(text);
    if (address === undefined) return;
    const group = known?.pod === pod ? known.group : this.#move(text, known?.group, pod);
    const peers = this.#classFor(group, address, pod);
    this.#table.use(peers);
    if (known !== undefined) this.#table.drop(known.peers);
    this.#known.set(text, { address, pod, group, peers });
    const name = mentionedName(peers);
    if (name === undefined) this.classes.delete(text);
    else this.classes.set(text, name);
  }

  #forget(text: string, { group, peers }: Known): void {
    this.#leave(text, group);
    this.#table.drop(peers);
    this.#known.delete(text);
    this.classes.delete(text);
  }

  #move(text: string, before: Group | undefined, pod: OwnerPod): Group {
    if (before !== undefined && this.#groups.isOf(before, pod)) return before;
    if (before !== undefined) this.#leave(text, before);
    return this.#groups.enter(text, pod);
  }

  #leave(text: string, group: Group): void {
    this.#groups.leave(text, group);
    if (group.members.size === 0) this.#combined.delete(group);
  }

  #classFor(group: Group, address: Address, pod: OwnerPod): PeerClass {
    const blocks = this.#blocks.size === 0 ? [] : (intervalOf(this.#flat, address)?.blocks ?? []);
    const ports = this.#ports.size === 0 ? [] : this.#portsOf(group, blocks, pod);
    const key = [...blocks, ...ports.map((one) => one.key)].join("\n");
    const combined = this.#combined.getOrInsertComputed(group, () => new Map());
    return combined.getOrInsertComputed(key, () => classOf([...[...group.peers.keys(), ...blocks].map(peerPredicate), ...ports]));
  }

  #portsOf(group: Group, blocks: readonly string[], pod: OwnerPod): readonly Predicate[] {
    return [ANY_PEER, ...group.peers.keys(), ...blocks].flatMap((peer) =>
      [...(this.#ports.get(peer)?.values() ?? [])].flatMap(({ name, port }) =>
        portNumbers(pod.ports ?? [], port.name, port.protocol).map((number) => portPredicate(name, number)),
      ),
    );
  }

  #addPort(port: ActivePort): void {
    this.#ports.getOrInsertComputed(port.peer?.key ?? ANY_PEER, () => new Map()).set(port.name, port);
  }

  #removePort({ name, peer }: ActivePort): void {
    const key = peer?.key ?? ANY_PEER;
    const ports = this.#ports.get(key);
    if (ports?.delete(name) === true && ports.size === 0) this.#ports.delete(key);
  }

  #changeBlocks(removed: readonly BlockPeer[], added: readonly BlockPeer[]): void {
    if (removed.length + added.length === 0) return;
    for (const { key } of removed) this.#blocks.delete(key);
    for (const block of added) this.#blocks.set(block.key, block);
    this.#flat = flatten(this.#blocks.values());
    this.#replaceIntervals();
    this.#combined.clear();
    // Addresses outside the blocks that changed are in the same blocks as before.
    const changed = flatten([...removed, ...added]);
    for (const [text, { address }] of this.#known) if (intervalOf(changed, address) !== undefined) this.#dirty.add(text);
  }

  #replaceIntervals(): void {
    const classes = new Map<string, PeerClass>();
    const made = this.#flat.map(({ blocks }) => {
      return classes.getOrInsertComputed(blocks.join("\n"), () => classOf(blocks.map(peerPredicate)));
    });
    for (const peers of made) this.#table.use(peers);
    for (const peers of this.#classesOfIntervals) this.#table.drop(peers);
    this.#classesOfIntervals = made;
    this.intervals = this.#flat.flatMap(({ family, first, last }, index) => {
      const peers = made[index];
      return peers === undefined ? [] : [{ family, first, last, class: peers.name }];
    });
  }
}

/**
 * Names the class; `undefined` where nobody mentions it. Such an address is in no block either, so the packet filter finds its class without
 * an element for it. Another class may bear the same name (ClassTable), so the name does not decide.
 */
function mentionedName({ name, text }: PeerClass): ClassName | undefined {
  return text === "" ? undefined : name;
}

function isSame(one: AddressInterval, other: AddressInterval | undefined): boolean {
  return (
    other !== undefined && one.family === other.family && one.first === other.first && one.last === other.last && one.class === other.class
  );
}

function isBlock(peer: Peer): peer is BlockPeer {
  return peer.kind === "block";
}
