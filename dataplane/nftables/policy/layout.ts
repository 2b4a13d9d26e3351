/**
 * Lays out table `inet tortie-policy`: what is always in it, and what a class of peers has. A packet goes this way:
 *
 *     forward   iifname "cali*" jump from-pod; oifname "cali*" jump to-pod      (priority -10, policy accept)
 *     input     iifname "cali*" jump from-pod-to-host
 *     from-pod  iifname vmap @from-endpoint   → goto egress-policy, goto egress-open, or return (an endpoint that no policy closes);
 *               one of ours that the map does not know is closed: goto egress-endpoint-unknown
 *     from-pod-to-host  the same, but what an unknown host end answers to its own host passes, and neighbour discovery
 *     egress-policy  a reply → return; what begins a connection → jump egress-begin, which drops what must never begin one; an error about a
 *               connection, neighbour discovery → return; class of the peer's address, first the exact addresses, then the blocks, the
 *               largest first → goto egress-CLASS; an address in none of them → goto egress-000000000000
 *     egress-CLASS   iifname @egress-CLASS-all return; iifname . protocol . port @egress-CLASS-ports return, and so on;
 *               else goto egress-denied
 *     egress-denied  what an endpoint sends to itself (hairpin) → return; all others are logged, counted and dropped
 *
 * Ingress has the same with oifname and the source's address. `return` says "allowed here, ask the others": it leads back to the base chain,
 * and from there to other people's tables, since each chain on the way was reached by `goto`. `output` has no chain: what the host sends is
 * not judged. The endpoint's name is in every key, so endpoints share chains, and the number of endpoints, classes or ports does not
 * lengthen the way of a packet.
 *
 * Intervals of ports are cut into aligned pieces of 1, 16, 256 and 4096 ports, each kind in a set of its own that is asked for the port
 * without its last bits: four look-ups at most, of one cost. Blocks of addresses are cut in the same way, into prefixes of 4, 8, 12 bits and
 * so on, with a map for each length that there is. A set of intervals with several fields (nft_set_pipapo) costs 0.3 µs for one of them and
 * 2 µs for a hundred, and each change of it copies the whole; one with a single field (nft_set_rbtree) costs more the more it has.
 *
 * A TCP packet that conntrack does not know and that is no SYN is dropped (`beginsWithoutSyn`), for an endpoint that is enforced in one
 * direction at least in both: conntrack would take it for a new connection (nf_conntrack_tcp_loose), and a flow whose permission is gone
 * would run on as a connection of its server. So a connection that conntrack has never seen, such as one older than the table, ends when
 * its endpoint is first enforced.
 *
 * When an element leads to a chain, the kernel looks for loops in everything that can be reached from any element of the map
 * (nft_chain_validate). So whatever follows a class is short, and each map is asked by one rule: with 10,000 addresses the rules behind them
 * are gone through 10,000 times.
 */
import type { ClassName, Direction } from "../../packet-policy.ts";
import { NO_PREDICATE } from "../../packet-policy.ts";
import { drop, jump } from "../expressions.ts";
import type { BaseChain } from "../message.ts";
import { ADDRESS, IFNAME, INET_PROTO, INET_SERVICE, type SetShape } from "../sets.ts";
import * as rule from "./expressions.ts";
import { DIRECTIONS, DROP_REASONS, type DropReason, logPrefix } from "./log-prefix.ts";
import type { Chain, NamedSet, Rule, Ruleset } from "./ruleset.ts";

export const POLICY_TABLE = "tortie-policy";

/** include/uapi/linux/netfilter.h. Comes before the filters of others (priority 0) and behind all translation of destinations (-100). */
const PRIORITY = -10;
const FORWARD: BaseChain = { name: "forward", type: "filter", hook: 2, priority: PRIORITY };
const INPUT: BaseChain = { name: "input", type: "filter", hook: 1, priority: PRIORITY };

export interface LayoutOptions {
  /** How the names of our host ends begin, such as "cali". */
  readonly prefixes: readonly string[];
  /** The NFLOG group that hears of drops. */
  readonly logGroup: number;
}

const FAMILIES = [4, 6] as const;

const ENDPOINTS: SetShape = { fields: [IFNAME], isMap: true };
const OWN = {
  4: { fields: [IFNAME, ADDRESS[4]], isMap: false },
  6: { fields: [IFNAME, ADDRESS[6]], isMap: false },
} as const satisfies Record<4 | 6, SetShape>;
/** Maps an address, or the leading bits of one, to the chain of its class. */
export const PEERS = {
  4: { fields: [ADDRESS[4]], isMap: true },
  6: { fields: [ADDRESS[6]], isMap: true },
} as const satisfies Record<4 | 6, SetShape>;
/** Keeps the limit of each endpoint while it has drops; nodes have far fewer endpoints than this. */
const LOG_LIMIT: SetShape = { fields: [IFNAME], isMap: false, filledByRules: { most: 4096, seconds: 60 } };
/** Drops that an endpoint may log in each direction. The others are only counted. */
const LOGGED = { perSecond: 10, burst: 50 } as const;

const PORTS: SetShape = { fields: [IFNAME, INET_PROTO, INET_SERVICE], isMap: false };

/** The sets of a class, in the order in which they are asked. Those of ports say what remains of a port in their keys. */
export const CLASS_SETS = {
  all: { shape: { fields: [IFNAME], isMap: false }, mask: 0 },
  ports: { shape: PORTS, mask: 0xffff },
  ports16: { shape: PORTS, mask: 0xfff0 },
  ports256: { shape: PORTS, mask: 0xff00 },
  ports4096: { shape: PORTS, mask: 0xf000 },
} as const satisfies Record<string, { readonly shape: SetShape; readonly mask: number }>;
export type ClassSet = keyof typeof CLASS_SETS;
export const CLASS_SET_NAMES: readonly ClassSet[] = ["all", "ports", "ports16", "ports256", "ports4096"];

export const names = {
  endpoints: (direction: Direction) => (direction === "egress" ? "from-endpoint" : "to-endpoint"),
  own: (family: 4 | 6) => `own${family}`,
  addresses: (direction: Direction, family: 4 | 6) => `${direction}-addresses${family}`,
  /** The map of blocks of this length, in bits. */
  blocks: (direction: Direction, family: 4 | 6, length: number) => `${direction}-blocks${family}-${length}`,
  policy: (direction: Direction) => `${direction}-policy`,
  open: (direction: Direction) => `${direction}-open`,
  begin: (direction: Direction) => `${direction}-begin`,
  logLimit: (direction: Direction) => `${direction}-log-limit`,
  /** Counts packets that begin a connection and may: what policy judges then. */
  judged: (direction: Direction) => `${direction}-judged`,
  /** The chain that drops for this reason, and its counter. */
  dropping: (direction: Direction, reason: DropReason) => `${direction}-${reason}`,
  classChain: (direction: Direction, name: ClassName) => `${direction}-${name}`,
  classSet: (direction: Direction, name: ClassName, set: ClassSet) => `${direction}-${name}-${set}`,
} as const;

/** Returns what is in the table whatever the policy is; the maps and sets are empty. */
export function skeleton(options: LayoutOptions): Ruleset {
  const sets = new Map<string, NamedSet>();
  const add = (name: string, shape: SetShape) => sets.set(name, { shape, elements: new Map() });
  for (const family of FAMILIES) add(names.own(family), OWN[family]);
  for (const direction of DIRECTIONS) {
    add(names.endpoints(direction), ENDPOINTS);
    for (const family of FAMILIES) add(names.addresses(direction, family), PEERS[family]);
    add(names.logLimit(direction), LOG_LIMIT);
  }
  const counters = DIRECTIONS.flatMap((direction) => [
    ...DROP_REASONS.map((reason) => names.dropping(direction, reason)),
    names.judged(direction),
  ]);
  const chains = new Map([...DIRECTIONS.flatMap((direction) => chainsOf(direction, options.logGroup)), ...entrances(options.prefixes)]);
  return { counters, sets, chains };
}

function entrances(prefixes: readonly string[]): [string, Chain][] {
  const from = [rule.byEndpoint("egress", names.endpoints("egress"))];
  const to = [rule.byEndpoint("ingress", names.endpoints("ingress"))];
  const unknown = (direction: Direction): Rule => [rule.goTo(names.dropping(direction, "endpoint-unknown"))];
  const answers: Rule[] = [
    [...rule.isReply(), rule.returns()],
    [...rule.isNeighbourDiscovery(), rule.returns()],
  ];
  return [
    ["from-pod", { rules: [...from, unknown("egress")] }],
    ["from-pod-to-host", { rules: [...from, ...answers, unknown("egress")] }],
    ["to-pod", { rules: [...to, unknown("ingress")] }],
    [
      FORWARD.name,
      {
        hook: FORWARD,
        rules: [
          ...prefixes.map((prefix) => [...rule.isAtEndWith("egress", prefix), jump("from-pod")]),
          ...prefixes.map((prefix) => [...rule.isAtEndWith("ingress", prefix), jump("to-pod")]),
        ],
      },
    ],
    [INPUT.name, { hook: INPUT, rules: prefixes.map((prefix) => [...rule.isAtEndWith("egress", prefix), jump("from-pod-to-host")]) }],
  ];
}

/** Returns the chains of one direction, each before those that lead to it. */
function chainsOf(direction: Direction, logGroup: number): [string, Chain][] {
  const dropping = (reason: DropReason) => names.dropping(direction, reason);
  const drops = (reason: DropReason): Rule[] => [
    [...rule.isWithinLimit(direction, names.logLimit(direction), LOGGED), rule.logs(logPrefix(direction, reason), logGroup)],
    [rule.counts(dropping(reason)), drop()],
  ];
  const toItself = FAMILIES.map((family) => [...rule.isToItself(direction, family, names.own(family)), rule.returns()]);
  const withoutSyn: Rule = [...rule.beginsWithoutSyn(), rule.goTo(dropping("tcp-without-syn"))];
  const begin: Rule[] = [
    [...rule.isInState("invalid"), rule.goTo(dropping("invalid"))],
    [...rule.isRedirect(), rule.goTo(dropping("denied"))],
    withoutSyn,
    // Neighbour discovery, which conntrack does not track, and an error about a connection begin none.
    [...rule.isInState("new"), rule.counts(names.judged(direction))],
  ];
  return [
    ...DROP_REASONS.map((reason): [string, Chain] => [
      dropping(reason),
      { rules: [...(reason === "denied" ? toItself : []), ...drops(reason)] },
    ]),
    [names.open(direction), { rules: [withoutSyn] }],
    [names.classChain(direction, NO_PREDICATE), classChain(direction, NO_PREDICATE, [])],
    [names.begin(direction), { rules: begin }],
    [names.policy(direction), policyChain(direction, { 4: [], 6: [] })],
  ];
}

/** Returns the chain that finds the class of a peer, where there are blocks of these lengths. */
export function policyChain(direction: Direction, lengths: Readonly<Record<4 | 6, readonly number[]>>): Chain {
  const rules: Rule[] = [
    [...rule.isReply(), rule.returns()],
    [...rule.isNotEstablished(), jump(names.begin(direction))],
    ...FAMILIES.map((family) => [...rule.isErrorOfConnection(family), rule.returns()]),
    [...rule.isNeighbourDiscovery(), rule.returns()],
    ...FAMILIES.flatMap((family) => [
      rule.byPeer(direction, family, names.addresses(direction, family)),
      ...lengths[family].map((length) => rule.byPeer(direction, family, names.blocks(direction, family, length), length)),
    ]),
    [rule.goTo(names.classChain(direction, NO_PREDICATE))],
  ];
  return { rules };
}

/** Returns the chain of a class with these sets. Its rules are made when they are asked for: as bytes they take 10 KiB a class. */
export function classChain(direction: Direction, name: ClassName, sets: readonly ClassSet[]): Chain {
  return {
    get rules() {
      return classRules(direction, name, sets);
    },
  };
}

function classRules(direction: Direction, name: ClassName, sets: readonly ClassSet[]): readonly Rule[] {
  const asks = sets.map((set) => {
    const setName = names.classSet(direction, name, set);
    const matches = set === "all" ? rule.isEndpointIn(direction, setName) : rule.isPortIn(direction, setName, CLASS_SETS[set].mask);
    return [...matches, rule.returns()];
  });
  return [...asks, [rule.goTo(names.dropping(direction, "denied"))]];
}
