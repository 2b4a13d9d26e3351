/** The rules that an endpoint falls under in one direction, and what they allow each class. Endpoints with the same rules share a profile. */
import type { Direction, Permission } from "../dataplane/packet-policy.ts";
import { ANY_PEER, nameOfPort, type PeerClass } from "./classes.ts";
import type { NamedPort } from "./model.ts";
import { collapse, type ResolvedRule, type ResolvedTier } from "./permissions.ts";
import { type Policy, type PortRange, PROTOCOLS, type Rule, rulesOf, type Tier } from "./rules.ts";

/** Permissions that a profile remembers. */
const MOST_KNOWN = 1_000;

interface Entry {
  readonly tier: number;
  readonly rule: Rule;
  /** Whether the ports of the peers decide what the rule means. */
  readonly hasNames: boolean;
}

/** Finds what one container port list gives a name: every number, as containers of a pod may use a name twice. */
export function portNumbers(ports: readonly NamedPort[], name: string, protocol: number): readonly number[] {
  const found = ports.filter((one) => one.name === name && PROTOCOLS.get(one.protocol) === protocol).map(({ port }) => port);
  return [...new Set(found)].sort((one, other) => one - other);
}

export class Profile {
  readonly #tiers: Tier[] = [];
  readonly #entries: Entry[] = [];
  /** Places of the rules for everybody. */
  readonly #forAll: number[] = [];
  /** Places of the rules that have a peer, by its key. */
  readonly #byPeer = new Map<string, number[]>();
  readonly #direction: Direction;
  readonly #ownPorts: readonly NamedPort[];
  readonly #otherwise: "allow" | "deny";
  readonly #intern: (permission: Permission) => Permission;
  /** What everybody is allowed, whom no other rule mentions. */
  #ofEverybody: { readonly permission: Permission | undefined } | undefined;
  #forAllHasNames = false;
  /** Permissions by the rules that apply: many classes fall under the same. */
  readonly #known = new Map<string, Permission | undefined>();

  /**
   * @param policies those that select the endpoint in this direction, in the order in which they are asked
   * @param ownPorts of the endpoint, for rules of ingress that name a port
   * @param otherwise what holds where every tier passes
   * @param intern finds the one object that stands for all equal permissions
   */
  constructor(
    policies: readonly Policy[],
    direction: Direction,
    ownPorts: readonly NamedPort[],
    otherwise: "allow" | "deny",
    intern: (permission: Permission) => Permission,
  ) {
    this.#direction = direction;
    this.#ownPorts = ownPorts;
    this.#otherwise = otherwise;
    this.#intern = intern;
    for (const policy of policies) {
      if (this.#tiers.at(-1)?.order !== policy.tier.order) this.#tiers.push(policy.tier);
      for (const rule of rulesOf(policy, direction) ?? []) this.#add(this.#tiers.length - 1, rule);
    }
  }

  /** @returns `undefined` when nothing is allowed */
  permissionOf(peers: PeerClass): Permission | undefined {
    const places = this.#placesFor(peers);
    if (places === this.#forAll && !this.#forAllHasNames) {
      this.#ofEverybody ??= { permission: this.#compute(places, peers) };
      return this.#ofEverybody.permission;
    }
    const key = [...places, ...this.#resolvedNames(places, peers)].join(" ");
    if (this.#known.has(key)) return this.#known.get(key);
    const permission = this.#compute(places, peers);
    if (this.#known.size >= MOST_KNOWN) this.#known.clear();
    this.#known.set(key, permission);
    return permission;
  }

  /** Forgets what it has computed; the next answers are the same. */
  forget(): void {
    this.#known.clear();
    this.#ofEverybody = undefined;
  }

  #add(tier: number, rule: Rule): void {
    const { peers, ports } = rule;
    const hasNames = this.#direction === "egress" && ports !== "all" && ports.some(({ kind }) => kind === "name");
    const place = this.#entries.push({ tier, rule, hasNames }) - 1;
    if (peers === "any") {
      this.#forAll.push(place);
      this.#forAllHasNames ||= hasNames;
    } else {
      for (const key of new Set(peers.map((peer) => peer.key))) this.#byPeer.getOrInsert(key, []).push(place);
    }
  }

  #compute(places: readonly number[], peers: PeerClass): Permission | undefined {
    const tiers = this.#tiers.map((tier, index): ResolvedTier => {
      const entries = places.flatMap((place) => this.#entries[place] ?? []).filter((entry) => entry.tier === index);
      return { otherwise: tier.otherwise, rules: entries.map(({ rule }) => this.#resolve(rule, peers)) };
    });
    const collapsed = collapse(tiers, this.#otherwise);
    return collapsed && this.#intern(collapsed);
  }

  #placesFor(peers: PeerClass): readonly number[] {
    const named = [...peers.predicates.keys()].flatMap((key) => this.#byPeer.get(key) ?? []);
    if (named.length === 0) return this.#forAll;
    return [...new Set([...this.#forAll, ...named])].sort((one, other) => one - other);
  }

  /** What tells classes apart that fall under the same rules: the ports that a name means, and those of which peer. */
  #resolvedNames(places: readonly number[], peers: PeerClass): readonly string[] {
    if (peers.ports.size === 0) return [];
    return places.flatMap((place) => {
      const entry = this.#entries[place];
      return entry?.hasNames === true ? [`${place}:${JSON.stringify(this.#resolve(entry.rule, peers).ports)}`] : [];
    });
  }

  #resolve({ action, ports, peers }: Rule, peer: PeerClass): ResolvedRule {
    if (ports === "all") return { action, ports };
    const resolved = ports.flatMap((one): readonly PortRange[] => {
      if (one.kind === "range") return [one];
      const numbers =
        this.#direction === "ingress"
          ? portNumbers(this.#ownPorts, one.name, one.protocol)
          : (peers === "any" ? [ANY_PEER] : peers.map(({ key }) => key)).flatMap((key) => peer.ports.get(nameOfPort(key, one)) ?? []);
      return [...new Set(numbers)].map((port) => ({ kind: "range", protocol: one.protocol, first: port, last: port }));
    });
    return { action, ports: resolved };
  }
}
