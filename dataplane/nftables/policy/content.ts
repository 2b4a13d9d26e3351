/**
 * Keeps what the table must hold for a policy, and what the last change touched of it. A change costs in proportion to what it changes: the
 * permissions of an endpoint are compared by identity first, which the policy engine shares, and then by value. A large one is done in
 * slices: whoever calls must not read the content, or change it again, before the call is over.
 *
 * A class has a chain in each direction while an address, a block or a permission names it.
 */
import { bytesOf, type Family, parseAddress } from "../../../lib/addresses/address.ts";
import type { Slices } from "../../../lib/system/slices.ts";
import type {
  AddressInterval,
  ClassName,
  Direction,
  EndpointPolicy,
  PacketPolicy,
  Permission,
  Permissions,
  PolicyChange,
} from "../../packet-policy.ts";
import { isEnforced, NO_PREDICATE } from "../../packet-policy.ts";
import { asKey, interfaceKey, type SetShape } from "../sets.ts";
import {
  CLASS_SET_NAMES,
  CLASS_SETS,
  type ClassSet,
  classChain,
  type LayoutOptions,
  names,
  PEERS,
  policyChain,
  skeleton,
} from "./layout.ts";
import { DIRECTIONS } from "./log-prefix.ts";
import { PREFIX_LENGTHS, piecesOf, prefixesOf } from "./pieces.ts";
import type { Chain, NamedSet, Ruleset, RulesetChange } from "./ruleset.ts";
import { Touched } from "./touched.ts";

interface OwnSet extends NamedSet {
  readonly shape: SetShape;
  readonly elements: Map<string, string>;
}

export class PolicyContent implements Ruleset {
  readonly counters: readonly string[];
  readonly sets = new Map<string, OwnSet>();
  readonly chains: Map<string, Chain>;
  readonly #endpoints = new Map<string, EndpointPolicy>();
  readonly #addresses = new Map<string, ClassName>();
  #blocks: readonly AddressInterval[] = [];
  /** How many addresses and blocks name a class. */
  readonly #uses = new Map<ClassName, number>();
  #touched = new Touched();

  private constructor(options: LayoutOptions) {
    const { counters, sets, chains } = skeleton(options);
    this.counters = counters;
    for (const [name, { shape }] of sets) this.sets.set(name, { shape, elements: new Map() });
    this.chains = new Map(chains);
  }

  /** Makes the content for a policy. */
  static async of(options: LayoutOptions, state: PacketPolicy, slices: Slices): Promise<PolicyContent> {
    const content = new PolicyContent(options);
    await content.apply(state, slices);
    content.#touched = new Touched();
    return content;
  }

  /** Takes a change over; `take()` then says what it touched. */
  async apply({ endpoints, addresses, blocks }: PolicyChange, slices: Slices): Promise<void> {
    for (const [address, name] of addresses) {
      this.#setAddress(address, name);
      if (slices.isOver) await slices.next();
    }
    if (blocks !== undefined) await this.#setBlocks(blocks, slices);
    for (const [hostInterface, policy] of endpoints) await this.#setEndpoint(hostInterface, policy, slices);
  }

  /** Returns what differs from the content at the last call. */
  take(slices: Slices): Promise<RulesetChange> {
    const touched = this.#touched;
    this.#touched = new Touched();
    return touched.changeTo(this, slices);
  }

  async #setEndpoint(hostInterface: string, policy: EndpointPolicy | undefined, slices: Slices): Promise<void> {
    const before = this.#endpoints.get(hostInterface);
    if (before === policy) return;
    if (policy === undefined) this.#endpoints.delete(hostInterface);
    else this.#endpoints.set(hostInterface, policy);
    const key = interfaceKey(hostInterface);
    for (const direction of DIRECTIONS) {
      await this.#setPermissions(direction, key, before?.[direction], policy?.[direction], slices);
      this.#put(names.endpoints(direction), key, policy === undefined ? undefined : verdictFor(direction, policy));
    }
    this.#setOwn(key, before, policy);
  }

  #setOwn(key: string, before: EndpointPolicy | undefined, policy: EndpointPolicy | undefined): void {
    const own = (one: EndpointPolicy | undefined) =>
      new Map(
        one === undefined || !isEnforced(one)
          ? []
          : one.addresses.map((address) => [key + asKey(bytesOf(address)), names.own(address.family)]),
      );
    const wanted = own(policy);
    for (const [element, set] of own(before)) if (!wanted.has(element)) this.#put(set, element, undefined);
    for (const [element, set] of wanted) this.#put(set, element, "");
  }

  async #setPermissions(
    direction: Direction,
    key: string,
    before: Permissions | undefined,
    now: Permissions | undefined,
    slices: Slices,
  ): Promise<void> {
    if (before === now) return;
    for (const [name, permission] of before ?? []) {
      if (now?.get(name) === undefined) this.#setPermission(direction, name, key, permission, undefined);
    }
    for (const [name, permission] of now ?? []) {
      this.#setPermission(direction, name, key, before?.get(name), permission);
      if (slices.isOver) await slices.next();
    }
  }

  #setPermission(direction: Direction, name: ClassName, key: string, before: Permission | undefined, now: Permission | undefined): void {
    if (before === now) return;
    const wanted = elementsOf(key, now);
    const there = elementsOf(key, before);
    // At the start nothing is there, for any of thousands of permissions.
    const kept = new Set(there.length === 0 ? [] : wanted.map(([set, element]) => set + element));
    for (const [set, element] of there) if (!kept.has(set + element)) this.#remove(direction, name, set, element);
    for (const [set, element] of wanted) this.#add(direction, name, set, element);
    this.#keepChain(direction, name);
  }

  #add(direction: Direction, name: ClassName, set: ClassSet, element: string): void {
    const setName = names.classSet(direction, name, set);
    if (!this.sets.has(setName)) {
      this.#touchSet(setName);
      this.sets.set(setName, { shape: CLASS_SETS[set].shape, elements: new Map() });
      this.#setClassChain(direction, name);
    }
    this.#put(setName, element, "");
  }

  #remove(direction: Direction, name: ClassName, set: ClassSet, element: string): void {
    const setName = names.classSet(direction, name, set);
    this.#put(setName, element, undefined);
    if (this.sets.get(setName)?.elements.size !== 0) return;
    this.#touchSet(setName);
    this.sets.delete(setName);
    this.#setClassChain(direction, name);
  }

  #setClassChain(direction: Direction, name: ClassName): void {
    const chain = names.classChain(direction, name);
    this.#touchChain(chain);
    this.chains.set(chain, classChain(direction, name, this.#setsOf(direction, name)));
  }

  #setsOf(direction: Direction, name: ClassName): readonly ClassSet[] {
    return CLASS_SET_NAMES.filter((set) => this.sets.has(names.classSet(direction, name, set)));
  }

  /** Makes or deletes the chain of a class, depending on whether anything names the class. */
  #keepChain(direction: Direction, name: ClassName): void {
    const chain = names.classChain(direction, name);
    const isWanted = name === NO_PREDICATE || this.#uses.has(name) || this.#setsOf(direction, name).length > 0;
    if (isWanted === this.chains.has(chain)) return;
    this.#touchChain(chain);
    if (isWanted) this.chains.set(chain, classChain(direction, name, this.#setsOf(direction, name)));
    else this.chains.delete(chain);
  }

  #setAddress(text: string, name: ClassName | undefined): void {
    const before = this.#addresses.get(text);
    if (before === name) return;
    const address = parseAddress(text);
    if (address === undefined) throw new Error(`"${text}" is no address: the policy engine must write addresses with formatAddress`);
    if (name === undefined) this.#addresses.delete(text);
    else this.#addresses.set(text, name);
    this.#use(name, before);
    const key = asKey(bytesOf(address));
    for (const direction of DIRECTIONS) {
      this.#put(names.addresses(direction, address.family), key, name && `goto ${names.classChain(direction, name)}`);
    }
  }

  async #setBlocks(blocks: readonly AddressInterval[], slices: Slices): Promise<void> {
    if (blocks === this.#blocks) return;
    const textOf = ({ family, first, last, class: name }: AddressInterval) => `${family} ${first} ${last} ${name}`;
    const before = new Map(this.#blocks.map((block) => [textOf(block), block]));
    const wanted = new Map(blocks.map((block) => [textOf(block), block]));
    this.#blocks = blocks;
    for (const [text, block] of before) if (!wanted.has(text)) this.#putBlock(block, undefined, block.class);
    for (const [text, block] of wanted) {
      if (!before.has(text)) this.#putBlock(block, block.class, undefined);
      if (slices.isOver) await slices.next();
    }
  }

  #putBlock(block: AddressInterval, name: ClassName | undefined, before: ClassName | undefined): void {
    this.#use(name, before);
    for (const { length, value } of prefixesOf(block)) {
      const key = asKey(bytesOf({ family: block.family, value }));
      for (const direction of DIRECTIONS) this.#putPrefix(direction, block.family, length, key, name);
    }
  }

  #putPrefix(direction: Direction, family: Family, length: number, key: string, name: ClassName | undefined): void {
    const set = names.blocks(direction, family, length);
    const wasThere = this.sets.has(set);
    if (!wasThere && name !== undefined) {
      this.#touchSet(set);
      this.sets.set(set, { shape: PEERS[family], elements: new Map() });
    }
    this.#put(set, key, name && `goto ${names.classChain(direction, name)}`);
    if (this.sets.get(set)?.elements.size === 0) {
      this.#touchSet(set);
      this.sets.delete(set);
    }
    if (wasThere !== this.sets.has(set)) this.#setPolicyChain(direction);
  }

  #setPolicyChain(direction: Direction): void {
    const chain = names.policy(direction);
    this.#touchChain(chain);
    const lengths = (family: Family) => PREFIX_LENGTHS.filter((length) => this.sets.has(names.blocks(direction, family, length)));
    this.chains.set(chain, policyChain(direction, { 4: lengths(4), 6: lengths(6) }));
  }

  /** Counts one address or block more for a class, and one less for another. */
  #use(name: ClassName | undefined, before: ClassName | undefined): void {
    if (name !== undefined) this.#uses.set(name, (this.#uses.get(name) ?? 0) + 1);
    if (before !== undefined) {
      const left = (this.#uses.get(before) ?? 0) - 1;
      if (left > 0) this.#uses.set(before, left);
      else this.#uses.delete(before);
    }
    for (const direction of DIRECTIONS) {
      if (name !== undefined) this.#keepChain(direction, name);
      if (before !== undefined) this.#keepChain(direction, before);
    }
  }

  /** Sets the verdict of an element, or takes it away. */
  #put(setName: string, key: string, verdict: string | undefined): void {
    const elements = this.sets.get(setName)?.elements;
    if (elements === undefined) return;
    const before = elements.get(key);
    if (before === verdict) return;
    this.#touched.element(setName, key, before);
    if (verdict === undefined) elements.delete(key);
    else elements.set(key, verdict);
  }

  #touchSet(name: string): void {
    this.#touched.set(name, this.sets.get(name)?.shape);
  }

  #touchChain(name: string): void {
    this.#touched.chain(name, this.chains.has(name));
  }
}

function verdictFor(direction: Direction, policy: EndpointPolicy): string {
  if (policy[direction] !== undefined) return `goto ${names.policy(direction)}`;
  return isEnforced(policy) ? `goto ${names.open(direction)}` : "return";
}

/** Returns the elements that allow this, each with the set that it belongs to. */
function elementsOf(key: string, permission: Permission | undefined): (readonly [set: ClassSet, element: string])[] {
  if (permission === undefined) return [];
  if (permission === "all") return [["all", key]];
  return permission.flatMap((allowed) => piecesOf(allowed).map(([set, port]) => [set, key + portKey(allowed.protocol, port)] as const));
}

/** Writes protocol and port, each padded to four bytes. */
function portKey(protocol: number, port: number): string {
  return String.fromCharCode(protocol, 0, 0, 0, port >> 8, port & 0xff, 0, 0);
}
