/**
 * Plans the content of our table, which many processes write: each datastore has sets of its own for its pools, each name prefix of host ends
 * a chain of its own, and the tunnels between nodes two. A writer replaces its own parts and keeps those of others, and their names say
 * what there is: they end with a fingerprint of their content. The rules of the three base chains follow from the names alone.
 */
import { formatPrefix, hostPrefix, type Prefix } from "../../lib/addresses/address.ts";
import type { Masquerading, VxlanTunnel } from "../dataplane.ts";
import type { Request } from "../netlink/socket.ts";
import * as rule from "./expressions.ts";
import { setRequests } from "./expressions.ts";
import { type BaseChain, type Expression, newChain, newPlainChain, newRule, remove, type TableFamily } from "./message.ts";

export const TABLE = "tortie";
/**
 * Hooks and priorities: include/uapi/linux/netfilter.h, netfilter_ipv4.h (NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC; NF_INET_LOCAL_IN,
 * NF_IP_PRI_FILTER; NF_INET_PRE_ROUTING, NF_IP_PRI_RAW).
 */
const POSTROUTING: BaseChain = { name: "postrouting", type: "nat", hook: 4, priority: 100 };
const INPUT: BaseChain = { name: "input", type: "filter", hook: 1, priority: 0 };
const PREROUTING: BaseChain = { name: "prerouting", type: "filter", hook: 0, priority: -300 };
const BASE_CHAINS = [POSTROUTING, INPUT, PREROUTING];

const POOL_SET = /^(outgoing|pools)[46]-([a-z0-9]+)-[0-9a-f]+$/;
const GUARD = "from-";
const TUNNEL_CHAIN = /^(tunnel|peers)-[0-9a-f]+$/;
const PEER_SET = /^node[46]-[0-9a-f]+$/;

/** Says what one writer wants of the table. What it leaves out stays as it is. */
export interface TableParts {
  readonly masquerading?: Masquerading | undefined;
  readonly guardedPrefixes: readonly string[];
  readonly tunnels?: readonly VxlanTunnel[] | undefined;
}

/** Has the names of what is in the table. */
export interface Names {
  readonly chains: readonly string[];
  readonly sets: readonly string[];
}

/** Describes one set or chain with its content. */
interface Part {
  readonly name: string;
  readonly requests: readonly Request[];
}

/** Says what a table must come to have, and what goes. */
interface TableChange {
  readonly sets: readonly Part[];
  readonly chains: readonly Part[];
  /** Names that will be there when the change is made. */
  readonly result: Names;
  readonly obsolete: Names;
}

/**
 * Decides which sets and chains are made and which go, for one of the address families that a table can have. Pure.
 * @param checksSources false for a kernel that cannot look up a source in its rules
 */
export function changeOf(table: TableFamily, parts: TableParts, found: Names, checksSources: boolean): TableChange {
  const { masquerading, tunnels } = parts;
  const ours = found.chains.filter((name) => name.startsWith(GUARD)).map((name) => name.slice(GUARD.length));
  const prefixes = [...new Set([...ours, ...parts.guardedPrefixes])].sort();
  const sets = [
    ...(masquerading === undefined ? [] : poolSets(table, masquerading)),
    ...(tunnels === undefined ? [] : peerSets(table, tunnels)),
  ];
  const chains = [
    ...prefixes.map((prefix) => guardChain(table, prefix, checksSources)),
    ...(tunnels === undefined || tunnels.length === 0 ? [] : tunnelChains(table, tunnels, prefixes, checksSources)),
  ];
  const isObsoleteSet = (name: string) =>
    !sets.some((one) => one.name === name) &&
    ((masquerading !== undefined && POOL_SET.exec(name)?.[2] === masquerading.store) || (tunnels !== undefined && PEER_SET.test(name)));
  const isObsoleteChain = (name: string) => tunnels !== undefined && TUNNEL_CHAIN.test(name) && !chains.some((one) => one.name === name);
  const after = (names: readonly string[], made: readonly Part[], isObsolete: (name: string) => boolean) =>
    [...new Set([...names.filter((name) => !isObsolete(name)), ...made.map(({ name }) => name)])].sort();
  return {
    sets: sets.filter(({ name }) => !found.sets.includes(name)),
    chains: chains.filter(({ name }) => !found.chains.includes(name)),
    result: { sets: after(found.sets, sets, isObsoleteSet), chains: after(found.chains, chains, isObsoleteChain) },
    obsolete: { sets: found.sets.filter(isObsoleteSet), chains: found.chains.filter(isObsoleteChain) },
  };
}

export function isUnchanged({ sets, chains, obsolete }: TableChange): boolean {
  return sets.length + chains.length + obsolete.sets.length + obsolete.chains.length === 0;
}

/** Tells whether nothing but empty base chains would be left. */
export function leavesNothing({ result }: TableChange): boolean {
  return result.sets.length === 0 && !result.chains.some((name) => name.startsWith(GUARD) || TUNNEL_CHAIN.test(name));
}

/** Makes the requests that carry the change out in a table that is there, to be made in one transaction. */
export function changeRequests(table: TableFamily, change: TableChange): Request[] {
  const { result, obsolete } = change;
  return [
    ...BASE_CHAINS.flatMap((chain) => [newChain(table, TABLE, chain), remove("rule", table, TABLE, chain.name)]),
    ...obsolete.chains.flatMap((name) => [remove("rule", table, TABLE, name), remove("chain", table, TABLE, name)]),
    ...obsolete.sets.map((name) => remove("set", table, TABLE, name)),
    ...change.sets.flatMap(({ requests }) => requests),
    ...change.chains.flatMap(({ requests }) => requests),
    ...baseRules(table, result).map(([chain, expressions]) => newRule(table, TABLE, chain.name, expressions)),
  ];
}

/** Returns the rules of the base chains, which lead to the parts that there are. */
function baseRules(table: TableFamily, { sets, chains }: Names): (readonly [BaseChain, readonly Expression[]])[] {
  const prefixes = chains.filter((name) => name.startsWith(GUARD)).map((name) => name.slice(GUARD.length));
  const masquerades = ([4, 6] as const).flatMap((family) => {
    const { source, destination } = rule.FAMILIES[family];
    const pools = sets.filter((name) => name.startsWith(`pools${family}-`));
    return sets
      .filter((name) => name.startsWith(`outgoing${family}-`))
      .map((outgoing): readonly [BaseChain, Expression[]] => [
        POSTROUTING,
        [
          ...ofFamily(table, family),
          ...rule.isIn(family, source, outgoing, true),
          // Another datastore's pools too: their pods are on this node, and see who calls them.
          ...pools.flatMap((name) => rule.isIn(family, destination, name, false)),
          rule.masquerade(),
        ],
      ]);
  });
  const jumpsTo = (start: string) => chains.filter((name) => name.startsWith(start)).map((name) => [rule.jump(name)]);
  return [
    ...masquerades,
    ...jumpsTo("peers-").map((expressions) => [INPUT, expressions] as const),
    // Only IPv4 addresses of the loopback can come from outside: the kernel drops ::1 whatever is set (net/ipv6/ip6_input.c).
    ...(table === "ip6" ? [] : prefixes.map((prefix) => [INPUT, loopbackGuard(table, prefix)] as const)),
    ...jumpsTo("tunnel-").map((expressions) => [PREROUTING, expressions] as const),
    ...prefixes.map((prefix) => [PREROUTING, [...rule.comesFrom(prefix), rule.jump(GUARD + prefix)]] as const),
  ];
}

/**
 * Makes the same rule as kubelet's "block incoming localnet connections", for our host ends only. Answers to the node's own connections and
 * what a port mapping has led here pass.
 */
function loopbackGuard(table: TableFamily, prefix: string): Expression[] {
  return [...rule.comesFrom(prefix), ...ofFamily(table, 4), ...rule.goesToLoopback(), ...rule.isUninvited(), rule.drop()];
}

/** Guards as Felix does in its raw table: a container sends from addresses whose route leads back to it, and from no others. */
function guardChain(table: TableFamily, prefix: string, checksSources: boolean): Part {
  const name = GUARD + prefix;
  const rules = checksSources ? [newRule(table, TABLE, name, [...rule.hasForeignSource(), rule.drop()])] : [];
  return { name, requests: [newPlainChain(table, TABLE, name), ...rules] };
}

function poolSets(table: TableFamily, { store, outgoing, pools }: Masquerading): Part[] {
  const fingerprint = fingerprintOf([textsOf(outgoing), textsOf(pools)]);
  return familiesOf(table).flatMap((family) =>
    Object.entries({ outgoing, pools }).flatMap(([kind, prefixes]) => {
      const name = `${kind}${family}-${store}-${fingerprint}`;
      return partOfSet(table, family, name, prefixes);
    }),
  );
}

function peerSets(table: TableFamily, tunnels: readonly VxlanTunnel[]): Part[] {
  const nodes = peersOf(tunnels);
  return familiesOf(table).flatMap((family) => partOfSet(table, family, peerSetName(family, tunnels), nodes));
}

function partOfSet(table: TableFamily, family: 4 | 6, name: string, prefixes: readonly Prefix[]): Part[] {
  const wanted = prefixes.filter(({ address }) => address.family === family);
  return wanted.length === 0 ? [] : [{ name, requests: setRequests(table, TABLE, family, name, wanted) }];
}

/**
 * Lets no container speak the tunnels' protocols, as Felix has it: a plain UDP socket would put packets with any source behind the guard.
 * From a tunnel comes nothing that claims an address of this node, and into it only what the other nodes send.
 */
function tunnelChains(table: TableFamily, tunnels: readonly VxlanTunnel[], prefixes: readonly string[], checksSources: boolean): Part[] {
  const ports = [...new Set(tunnels.map(({ port }) => port))];
  const devices = tunnels.map(({ name }) => name);
  const fromPods = prefixes.flatMap((prefix) => [
    ...ports.map((port) => [...rule.comesFrom(prefix), ...rule.goesToUdpPort(port)]),
    [...rule.comesFrom(prefix), ...rule.isIpInIp()],
  ]);
  const inside = checksSources
    ? devices.flatMap((device) =>
        [rule.hasLocalSource(), ...prefixes.map(rule.hasSourceBehind)].map((claim) => [...rule.comesThrough(device), ...claim]),
      )
    : [];
  const strangers = ports.flatMap((port) =>
    familiesOf(table).map((family) => {
      const hasPeers = peersOf(tunnels).some(({ address }) => address.family === family);
      const isPeer = hasPeers ? rule.isIn(family, rule.FAMILIES[family].source, peerSetName(family, tunnels), false) : [];
      return [...ofFamily(table, family), ...rule.goesToUdpPort(port), ...isPeer];
    }),
  );
  const fingerprint = fingerprintOf([textsOf(peersOf(tunnels)), ports, devices, prefixes]);
  const chain = (name: string, matches: readonly Expression[][]): Part => ({
    name,
    requests: [newPlainChain(table, TABLE, name), ...matches.map((match) => newRule(table, TABLE, name, [...match, rule.drop()]))],
  });
  return [chain(`tunnel-${fingerprint}`, [...fromPods, ...inside]), chain(`peers-${fingerprint}`, strangers)];
}

function peersOf(tunnels: readonly VxlanTunnel[]): Prefix[] {
  return tunnels.flatMap(({ peers }) => peers.map(({ node }) => hostPrefix(node)));
}

function peerSetName(family: 4 | 6, tunnels: readonly VxlanTunnel[]): string {
  return `node${family}-${fingerprintOf([textsOf(peersOf(tunnels))])}`;
}

function ofFamily(table: TableFamily, family: 4 | 6): Expression[] {
  return table === "inet" ? rule.isOfFamily(family) : [];
}

function familiesOf(table: TableFamily): (4 | 6)[] {
  if (table === "inet") return [4, 6];
  return table === "ip" ? [4] : [6];
}

function textsOf(prefixes: readonly Prefix[]): readonly string[] {
  return [...new Set(prefixes.map(formatPrefix))].sort();
}

function fingerprintOf(content: unknown): string {
  return Bun.hash(JSON.stringify(content)).toString(16).padStart(16, "0");
}
