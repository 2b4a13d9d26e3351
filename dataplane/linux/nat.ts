/**
 * Masquerading of what leaves the pools, where no Felix does it: one nftables table, made once and not for each pod.
 *
 * The table carries a fingerprint of its content as its comment, so that an ADD that finds it right has asked the kernel one question. A table that is
 * not right is replaced in one transaction: there is no moment without it, and processes that do the same at once end with the same.
 */
import { type Prefix, parsePrefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { attributeMap } from "../netlink/attribute.ts";
import { NETLINK_NETFILTER, NetlinkError, NetlinkSocket } from "../netlink/socket.ts";
import { type Masquerading, TABLE, tableRequests } from "../nftables/masquerade.ts";
import {
  deleteTable,
  getTable,
  NFGENMSG_BYTES,
  NFTA_TABLE_USERDATA,
  newTable,
  type TableFamily,
  transaction,
} from "../nftables/message.ts";

const EPERM = 1;
const ENOENT = 2;
/** Part of the fingerprint: raised when the rules change, so that a new version replaces the table of an old one. */
const RULES_VERSION = 1;
/** One table for both families; kernels before 5.2 have no NAT in those, and then there are two. */
const TABLE_SETS: readonly (readonly TableFamily[])[] = [["inet"], ["ip", "ip6"]];

/**
 * Makes sure that the kernel masquerades as the pools say; without a pool that wants it, that our table is not there.
 * @param outgoing CIDRs of the pools with natOutgoing
 * @param pools CIDRs of all pools: traffic between them keeps its addresses
 * @throws TortieError `nat-failed`
 */
export function ensureMasquerade(outgoing: readonly string[], pools: readonly string[]): void {
  if (outgoing.length === 0) {
    removeMasquerade();
    return;
  }
  const wanted: Masquerading = { outgoing: outgoing.map(prefixOf), pools: pools.map(prefixOf) };
  const comment = `natOutgoing of tortie's pools, ${fingerprint(outgoing, pools)}`;
  explained(`failed to masquerade traffic of ${outgoing.join(", ")}`, (socket) => {
    if (TABLE_SETS.some((families) => families.every((family) => commentOf(socket, family) === comment))) return;
    write(socket, wanted, comment);
  });
}

/** Removes our table of whatever families; none there is fine. @throws TortieError `nat-failed` */
export function removeMasquerade(): void {
  explained(`failed to remove nftables table ${TABLE}`, (socket) => {
    for (const family of TABLE_SETS.flat()) {
      if (commentOf(socket, family) === undefined) continue;
      socket.batch(transaction(emptying(family)));
    }
  });
}

function write(socket: NetlinkSocket, wanted: Masquerading, comment: string): void {
  let refusal: unknown;
  for (const families of TABLE_SETS) {
    try {
      socket.batch(
        transaction(families.flatMap((family) => [...emptying(family), ...tableRequests(family, wanted, commentData(comment))])),
      );
      return;
    } catch (error) {
      if (!(error instanceof NetlinkError) || error.errno === EPERM) throw error;
      // What the first kind of table was refused for says more than that the second is missing too.
      refusal ??= error;
    }
  }
  throw refusal;
}

/** Deletes a table, there or not: created first, so that the deletion cannot fail, all in the same transaction. */
function emptying(family: TableFamily) {
  return [newTable(family, TABLE), deleteTable(family, TABLE)];
}

/** The comment of our table; "" when it has none, `undefined` when there is no table. */
function commentOf(socket: NetlinkSocket, family: TableFamily): string | undefined {
  try {
    const [message] = socket.request(getTable(family, TABLE));
    const data = message === undefined ? undefined : attributeMap(message.payload.subarray(NFGENMSG_BYTES)).get(NFTA_TABLE_USERDATA);
    return data === undefined ? "" : new TextDecoder().decode(data.subarray(2, -1));
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENOENT) return undefined;
    throw error;
  }
}

/** User data as `nft` reads it: type 0 is a comment, then its length, then the text with a terminating zero (libnftnl, udata.h). */
function commentData(comment: string): Uint8Array {
  const text = new TextEncoder().encode(`${comment}\0`);
  return Uint8Array.of(0, text.length, ...text);
}

function fingerprint(outgoing: readonly string[], pools: readonly string[]): string {
  const content = JSON.stringify([RULES_VERSION, [...outgoing].sort(), [...pools].sort()]);
  return Bun.hash(content).toString(16).padStart(16, "0");
}

function prefixOf(cidr: string): Prefix {
  const prefix = parsePrefix(cidr);
  if (prefix === undefined) throw new TortieError("nat-failed", `pool "${cidr}" is not a CIDR`);
  return prefix;
}

function explained(what: string, work: (socket: NetlinkSocket) => void): void {
  try {
    using socket = NetlinkSocket.open(NETLINK_NETFILTER);
    work(socket);
  } catch (error) {
    if (error instanceof NetlinkError) throw new TortieError("nat-failed", `${what}: ${messageOf(error)}`, { cause: error });
    throw error;
  }
}
