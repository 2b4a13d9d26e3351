/**
 * Counts which peers and named ports the rules in force mention: only those tell addresses apart. Changes add up until they are taken, so that
 * a policy that is exchanged for one with the same peers changes nothing.
 */
import { ANY_PEER, nameOfPort } from "./classes.ts";
import type { Peer, PortName, Rule } from "./rules.ts";

/** A port that rules of egress name, for one peer. */
export interface ActivePort {
  readonly name: string;
  /** `undefined`: everybody. */
  readonly peer: Peer | undefined;
  readonly port: PortName;
}

export interface Difference<T> {
  readonly added: readonly T[];
  readonly removed: readonly T[];
}

export class Active {
  readonly peers = new Counted<Peer>();
  readonly ports = new Counted<ActivePort>();

  /** @param resolvesPorts whether a name means the peers' own ports, as in egress */
  retain(rules: Iterable<Rule>, resolvesPorts: boolean): void {
    for (const rule of rules) {
      for (const peer of peersOf(rule)) this.peers.retain(peer.key, peer);
      if (resolvesPorts) for (const port of portsOf(rule)) this.ports.retain(port.name, port);
    }
  }

  release(rules: Iterable<Rule>, resolvesPorts: boolean): void {
    for (const rule of rules) {
      for (const peer of peersOf(rule)) this.peers.release(peer.key);
      if (resolvesPorts) for (const port of portsOf(rule)) this.ports.release(port.name);
    }
  }
}

class Counted<T> {
  readonly #counts = new Map<string, { readonly value: T; users: number }>();
  /** What was there at the last taking, of those that were touched since. */
  readonly #before = new Map<string, T | undefined>();

  values(): readonly T[] {
    return [...this.#counts.values()].map(({ value }) => value);
  }

  get size(): number {
    return this.#counts.size;
  }

  retain(key: string, value: T): void {
    const counted = this.#counts.get(key);
    if (counted !== undefined) {
      counted.users++;
      return;
    }
    if (!this.#before.has(key)) this.#before.set(key, undefined);
    this.#counts.set(key, { value, users: 1 });
  }

  release(key: string): void {
    const counted = this.#counts.get(key);
    if (counted === undefined || --counted.users > 0) return;
    if (!this.#before.has(key)) this.#before.set(key, counted.value);
    this.#counts.delete(key);
  }

  take(): Difference<T> {
    const added: T[] = [];
    const removed: T[] = [];
    for (const [key, before] of this.#before) {
      const after = this.#counts.get(key)?.value;
      if (before === undefined && after !== undefined) added.push(after);
      if (before !== undefined && after === undefined) removed.push(before);
    }
    this.#before.clear();
    return { added, removed };
  }
}

function peersOf({ peers }: Rule): readonly Peer[] {
  return peers === "any" ? [] : peers;
}

function portsOf({ peers, ports }: Rule): readonly ActivePort[] {
  if (ports === "all") return [];
  const named = ports.filter((one) => one.kind === "name");
  const whose = peers === "any" ? [undefined] : peers;
  return named.flatMap((port) => whose.map((peer) => ({ name: nameOfPort(peer?.key ?? ANY_PEER, port), peer, port })));
}
