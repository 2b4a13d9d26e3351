/**
 * The content of our table. Traffic from a pool with `natOutgoing` to an address outside the pools leaves with the node's
 * address, no container reaches a service that listens on the node's loopback addresses, and none sends from another's address.
 */
import { bytesOf, type Family, maskPrefix, type Prefix, sizeOf } from "../../lib/addresses/address.ts";
import type { Request } from "../netlink/socket.ts";
import type { Masquerading, NodeState } from "../node-state.ts";
import { comesFrom, drop, FAMILIES, goesToLoopback, hasForeignSource, isIn, isOfFamily, isUninvited, masquerade } from "./expressions.ts";
import { type BaseChain, type Edge, newChain, newElements, newIntervalSet, newRule, newTable, type TableFamily } from "./message.ts";

export const TABLE = "tortie";
/**
 * Hooks and priorities: include/uapi/linux/netfilter.h, netfilter_ipv4.h (NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC; NF_INET_LOCAL_IN,
 * NF_IP_PRI_FILTER; NF_INET_PRE_ROUTING, NF_IP_PRI_RAW).
 */
const POSTROUTING: BaseChain = { name: "postrouting", type: "nat", hook: 4, priority: 100 };
const INPUT: BaseChain = { name: "input", type: "filter", hook: 1, priority: 0 };
const PREROUTING: BaseChain = { name: "prerouting", type: "filter", hook: 0, priority: -300 };
/** Elements of one message: an attribute ends at 64 KiB, and an IPv6 element takes 44 bytes. */
const ELEMENTS_PER_MESSAGE = 1000;

/** What of a node's state is in the table. */
export type TableContent = Pick<NodeState, "masquerading" | "guardedPrefixes">;

/**
 * The requests that create the table and all that is in it, for the address families that such a table can have.
 * @param checksSources false for a kernel that cannot look up a source in its rules
 */
export function tableRequests(
  table: TableFamily,
  { masquerading, guardedPrefixes }: TableContent,
  userData: Uint8Array,
  checksSources = true,
): Request[] {
  const isGuarded = guardedPrefixes.length > 0;
  return [
    newTable(table, TABLE, userData),
    ...(masquerading.outgoing.length === 0 ? [] : masqueradingRequests(table, masquerading)),
    // Only IPv4 addresses of the loopback can come from outside: the kernel drops ::1 whatever is set (net/ipv6/ip6_input.c).
    ...(isGuarded && table !== "ip6" ? guardRequests(table, guardedPrefixes) : []),
    ...(isGuarded && checksSources ? sourceRequests(table, guardedPrefixes) : []),
  ];
}

function masqueradingRequests(table: TableFamily, { outgoing, pools }: Masquerading): Request[] {
  const families = ([4, 6] as const).filter(
    (family) => (table === "inet" || (table === "ip") === (family === 4)) && outgoing.some((prefix) => prefix.address.family === family),
  );
  return [
    newChain(table, TABLE, POSTROUTING),
    ...families.flatMap((family, index) => [
      ...setRequests(table, family, `outgoing${family}`, 2 * index + 1, outgoing),
      ...setRequests(table, family, `pools${family}`, 2 * index + 2, pools),
      newRule(table, TABLE, POSTROUTING.name, [
        ...(table === "inet" ? isOfFamily(family) : []),
        ...isIn(family, FAMILIES[family].source, `outgoing${family}`, 2 * index + 1, true),
        ...isIn(family, FAMILIES[family].destination, `pools${family}`, 2 * index + 2, false),
        masquerade(),
      ]),
    ]),
  ];
}

/**
 * The same rule as kubelet's "block incoming localnet connections", for our host ends only. Answers to the node's own
 * connections to a host port, and connections translated on purpose, still arrive at a loopback address.
 */
function guardRequests(table: TableFamily, interfacePrefixes: readonly string[]): Request[] {
  return [
    newChain(table, TABLE, INPUT),
    ...interfacePrefixes.map((prefix) =>
      newRule(table, TABLE, INPUT.name, [
        ...(table === "inet" ? isOfFamily(4) : []),
        ...comesFrom(prefix),
        ...goesToLoopback(),
        ...isUninvited(),
        drop(),
      ]),
    ),
  ];
}

/** What Felix has in its raw table: a container sends from addresses whose route leads back to it, and from no others. */
function sourceRequests(table: TableFamily, interfacePrefixes: readonly string[]): Request[] {
  return [
    newChain(table, TABLE, PREROUTING),
    ...interfacePrefixes.map((prefix) => newRule(table, TABLE, PREROUTING.name, [...comesFrom(prefix), ...hasForeignSource(), drop()])),
  ];
}

function setRequests(table: TableFamily, family: Family, name: string, id: number, prefixes: readonly Prefix[]): Request[] {
  const edges = edgesOf(family, prefixes);
  const parts = Array.from({ length: Math.ceil(edges.length / ELEMENTS_PER_MESSAGE) }, (_, part) =>
    edges.slice(part * ELEMENTS_PER_MESSAGE, (part + 1) * ELEMENTS_PER_MESSAGE),
  );
  const { keyType, length } = FAMILIES[family];
  return [newIntervalSet(table, TABLE, name, keyType, length, id), ...parts.map((part) => newElements(table, TABLE, name, part))];
}

/** The edges of the intervals that the prefixes of one family cover, in order. An interval up to the last address of all has no end. */
export function edgesOf(family: Family, prefixes: readonly Prefix[]): Edge[] {
  const limit = 1n << (family === 4 ? 32n : 128n);
  const intervals = prefixes
    .filter(({ address }) => address.family === family)
    .map((prefix) => {
      const start = maskPrefix(prefix).address.value;
      return { start, end: start + sizeOf(prefix) };
    })
    .sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  const merged: { start: bigint; end: bigint }[] = [];
  for (const { start, end } of intervals) {
    const last = merged.at(-1);
    if (last === undefined || start > last.end) merged.push({ start, end });
    else if (end > last.end) last.end = end;
  }
  const key = (value: bigint) => bytesOf({ family, value });
  return merged.flatMap(({ start, end }) => [{ key: key(start), isEnd: false }, ...(end < limit ? [{ key: key(end), isEnd: true }] : [])]);
}
