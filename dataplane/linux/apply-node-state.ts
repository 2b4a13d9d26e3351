/**
 * Makes a node hold what all attachments need, where no Felix does it: forwarding, and one nftables table, made once and not for each pod.
 *
 * Each caller owns parts of the table (nftables/table.ts) and leaves those of others as they are: agents and plugins of several
 * datastores share a node. A table that has them all already costs a question for each. A change is one transaction, on condition
 * that nothing in nftables has changed since the table was read, so that of two processes at once the second reads again.
 */
import type { Family } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { NodeState } from "../dataplane.ts";
import type { Sysctl } from "../desired-state.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { type Message, NetlinkError, unlessMissing } from "../netlink/message.ts";
import type { Netlink, Request } from "../netlink/socket.ts";
import {
  ask,
  attributesOf,
  emptying,
  getGeneration,
  NFTA_TABLE_USERDATA,
  nameWithin,
  newTable,
  parseGeneration,
  type TableFamily,
  transaction,
} from "../nftables/message.ts";
import { changeOf, changeRequests, isUnchanged, leavesNothing, type Names, TABLE, type TableParts } from "../nftables/table.ts";
import { differingSysctls, writeSysctls } from "./sysctl.ts";

const EPERM = 1;
const ERESTART = 85;
/** Allows for others that write at the same moment; each of them succeeds once. */
const TRIES = 100;
/** Changes its number when the rules change, so that a new version replaces the table of an old one. */
const COMMENT = "masquerading and guards of tortie's pods, rules 4";
const NOTHING: Names = { chains: [], sets: [] };
/** Prefers one table for both families; kernels before 5.2 have no NAT in those, and then there are two. */
const TABLE_SETS: readonly (readonly TableFamily[])[] = [["inet"], ["ip", "ip6"]];
/** Stands in the comment of a table on a kernel without nft_fib, such as that of WSL 2. Strict `rp_filter` remains there, for IPv4. */
const UNCHECKED = ", sources unchecked";
const CANNOT_CHECK =
  "this kernel's nftables cannot look up a source (CONFIG_NFT_FIB_INET, _IPV4, _IPV6): containers can send from addresses that are not theirs";

/**
 * @returns what this kernel cannot hold, one sentence each
 * @throws TortieError `sysctl-failed`, `nat-failed`
 */
export function applyNodeState(sockets: HostSockets, state: NodeState): readonly string[] {
  writeSysctls(differingSysctls(state.forwardedFamilies.map(forwarding)));
  const { masquerading, guardedPrefixes, network } = state;
  if (state.forwardedFamilies.length === 0 && masquerading === undefined && guardedPrefixes.length === 0 && network === undefined) {
    removeNodeTable(sockets);
    return [];
  }
  return ensureTable(sockets, { masquerading, guardedPrefixes, tunnels: network?.tunnels });
}

/** Switches on what the reference `ptp` plugin does as well. */
function forwarding(family: Family): Sysctl {
  const path = family === 4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding";
  return { path, value: "1", required: true };
}

/** Makes sure that the kernel has these parts, and nothing old of their owners. */
function ensureTable({ netfilter: socket }: HostSockets, parts: TableParts): readonly string[] {
  return explained(`failed to make nftables table ${TABLE}`, () => {
    for (let tries = 1; ; tries++) {
      const [answer] = socket.request(getGeneration());
      const generation = answer && parseGeneration(answer);
      try {
        return ensureOnce(socket, parts, generation);
      } catch (error) {
        if (tries === TRIES || !(error instanceof NetlinkError) || error.errno !== ERESTART) throw error;
      }
    }
  });
}

function ensureOnce(socket: Netlink, parts: TableParts, generation: number | undefined): readonly string[] {
  const isRight = (text: string | undefined) => text?.startsWith(COMMENT) === true;
  for (const families of TABLE_SETS) {
    const texts = families.map((family) => commentOf(socket, family));
    if (!texts.every(isRight)) continue;
    const checksSources = texts[0]?.endsWith(UNCHECKED) !== true;
    if (!hasAll(socket, families, parts)) update(socket, families, parts, checksSources, generation);
    return checksSources ? [] : [CANNOT_CHECK];
  }
  return create(socket, parts, generation) ? [] : [CANNOT_CHECK];
}

function update(
  socket: Netlink,
  families: readonly TableFamily[],
  parts: TableParts,
  checksSources: boolean,
  generation: number | undefined,
): void {
  const changes = families.map((family) => ({ family, change: changeOf(family, parts, namesIn(socket, family), checksSources) }));
  if (changes.every(({ change }) => isUnchanged(change))) return;
  const isLast = changes.every(({ change }) => leavesNothing(change));
  const requests = changes.flatMap(({ family, change }) => (isLast ? emptying(family, TABLE) : changeRequests(family, change)));
  socket.batch(transaction(requests, generation));
}

/**
 * Asks for each of the parts whether it is there: of the sets of one datastore, which are made together, one is enough. A writer
 * that wants no sets has to look for old ones, and an agent with tunnels has time to look at all.
 */
function hasAll(socket: Netlink, families: readonly TableFamily[], parts: TableParts): boolean {
  if (parts.tunnels !== undefined) return false;
  const isThere = (request: Request) => answerTo(socket, request) !== undefined;
  return families.every((family) => {
    const { sets, chains } = changeOf(family, parts, NOTHING, true);
    const [set] = sets;
    if (set === undefined ? parts.masquerading !== undefined : !isThere(ask("set", family, TABLE, set.name))) return false;
    return chains.every(({ name }) => isThere(ask("chain", family, TABLE, name)));
  });
}

/** Lists what is in our table. A dump of chains has those of all tables. */
function namesIn(socket: Netlink, family: TableFamily): Names {
  return {
    chains: socket.dump(ask("chain", family, TABLE)).flatMap((found) => nameWithin("chain", family, TABLE, found) ?? []),
    sets: socket.dump(ask("set", family, TABLE)).flatMap((found) => nameWithin("set", family, TABLE, found) ?? []),
  };
}

/**
 * Removes our table in every family.
 * @returns whether there was one
 * @throws TortieError `nat-failed`
 */
export function removeNodeTable({ netfilter }: HostSockets): boolean {
  return explained(`failed to remove nftables table ${TABLE}`, () => emptyAll(netfilter));
}

function emptyAll(socket: Netlink): boolean {
  const families = TABLE_SETS.flat().filter((family) => commentOf(socket, family) !== undefined);
  for (const family of families) socket.batch(transaction(emptying(family, TABLE)));
  return families.length > 0;
}

/** @returns whether this kernel can check sources */
function create(socket: Netlink, parts: TableParts, generation: number | undefined): boolean {
  let refusal: unknown;
  for (const checksSources of [true, false]) {
    const data = commentData(checksSources ? COMMENT : COMMENT + UNCHECKED);
    for (const families of TABLE_SETS) {
      const changes = families.map((family) => ({ family, change: changeOf(family, parts, NOTHING, checksSources) }));
      if (changes.every(({ change }) => leavesNothing(change))) {
        emptyAll(socket);
        return true;
      }
      const requests = changes.flatMap(({ family, change }) => [
        ...emptying(family, TABLE),
        newTable(family, TABLE, data),
        ...changeRequests(family, change),
      ]);
      try {
        socket.batch(transaction(requests, generation));
        return checksSources;
      } catch (error) {
        if (!(error instanceof NetlinkError) || error.errno === EPERM || error.errno === ERESTART) throw error;
        // The refusal of the first kind of table says more than those of the fallbacks.
        refusal ??= error;
      }
    }
  }
  throw refusal;
}

/** Returns the comment of our table; "" without one, `undefined` without a table. */
function commentOf(socket: Netlink, family: TableFamily): string | undefined {
  const message = answerTo(socket, ask("table", family, TABLE));
  if (message === undefined) return undefined;
  const data = attributesOf(message).get(NFTA_TABLE_USERDATA);
  return data === undefined ? "" : new TextDecoder().decode(data.subarray(2, -1));
}

/** @returns `undefined` when the kernel has no such object */
function answerTo(socket: Netlink, request: Request): Message | undefined {
  return unlessMissing(() => socket.request(request)[0]);
}

/** Writes user data as `nft` reads it: type 0 is a comment, then its length, then the text with a terminating zero (libnftnl, udata.h). */
function commentData(comment: string): Uint8Array {
  const text = new TextEncoder().encode(`${comment}\0`);
  return Uint8Array.of(0, text.length, ...text);
}

function explained<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof NetlinkError) throw new TortieError("nat-failed", `${what}: ${messageOf(error)}`, { cause: error });
    throw error;
  }
}
