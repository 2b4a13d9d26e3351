/** Predicates and the classes that they divide addresses into. A class is named after its predicates alone, on every node and after every restart. */
import { type ClassName, NO_PREDICATE } from "../dataplane/packet-policy.ts";
import { sha256 } from "../lib/system/hash.ts";
import { compareText, type PortName, protocolName } from "./rules.ts";

/** Something that an address satisfies or not: a peer of a rule in force, or a peer whose port of some name has a certain number. */
export interface Predicate {
  readonly key: string;
  /** For a named port: which name of which peer (`nameOfPort`), and its number. */
  readonly named: { readonly port: string; readonly number: number } | undefined;
}

/** What all addresses have in common that satisfy the same predicates. */
export interface PeerClass {
  readonly name: ClassName;
  /** The sorted keys, one a line: equal for equal classes, and only for those. */
  readonly text: string;
  readonly predicates: ReadonlyMap<string, Predicate>;
  /** Numbers of named ports, by `nameOfPort`. */
  readonly ports: ReadonlyMap<string, readonly number[]>;
}

const NAME_DIGITS = 12;

/** The peer of rules for everybody, as a part of a named port's predicate. */
export const ANY_PEER = "any";

/** @param peer key of the rule's peer, or ANY_PEER */
export function nameOfPort(peer: string, { name, protocol }: PortName): string {
  return `${peer} port ${name}/${protocolName(protocol)}`;
}

export function peerPredicate(key: string): Predicate {
  return { key, named: undefined };
}

export function portPredicate(port: string, number: number): Predicate {
  return { key: `${port}=${number}`, named: { port, number } };
}

/** Makes the class of those who satisfy exactly these predicates, in whatever order they are given. */
export function classOf(predicates: readonly Predicate[]): PeerClass {
  const sorted = [...predicates].sort((one, other) => compareText(one.key, other.key));
  const byKey = new Map(sorted.map((one) => [one.key, one]));
  const ports = new Map<string, number[]>();
  for (const { named } of byKey.values()) {
    if (named !== undefined) ports.getOrInsert(named.port, []).push(named.number);
  }
  const text = [...byKey.keys()].join("\n");
  return { name: nameOf(text), text, predicates: byKey, ports };
}

function nameOf(text: string): ClassName {
  if (text === "") return NO_PREDICATE;
  return sha256(text).slice(0, NAME_DIGITS);
}

interface Use {
  readonly peers: PeerClass;
  users: number;
}

/**
 * Counts who uses which class. Forty-eight bits keep names apart by chance, not against somebody who searches for labels whose class is named like
 * another's: a name that two classes in use share stands for neither, and is allowed nothing.
 */
export class ClassTable {
  readonly #uses = new Map<ClassName, Map<string, Use>>();
  readonly #changed = new Set<ClassName>();

  use(peers: PeerClass): void {
    const named = this.#uses.getOrInsertComputed(peers.name, () => new Map());
    const use = named.get(peers.text);
    if (use !== undefined) use.users++;
    else {
      named.set(peers.text, { peers, users: 1 });
      this.#changed.add(peers.name);
    }
  }

  drop(peers: PeerClass): void {
    const named = this.#uses.get(peers.name);
    const use = named?.get(peers.text);
    if (named === undefined || use === undefined || --use.users > 0) return;
    named.delete(peers.text);
    if (named.size === 0) this.#uses.delete(peers.name);
    this.#changed.add(peers.name);
  }

  /** The class of a name; `undefined` where it is not in use, or means two. */
  get(name: ClassName): PeerClass | undefined {
    const named = this.#uses.get(name);
    return named?.size === 1 ? [...named.values()][0]?.peers : undefined;
  }

  names(): readonly ClassName[] {
    return [...this.#uses.keys()].sort();
  }

  /** Names whose class came or went since this was asked last, sorted. */
  takeChanged(): readonly ClassName[] {
    const changed = [...this.#changed].sort();
    this.#changed.clear();
    return changed;
  }
}
