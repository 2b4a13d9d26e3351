/**
 * What a node holds for all attachments, where no Felix does it: forwarding, and one nftables table, made once and not for each pod.
 *
 * The table carries a fingerprint of its content as its comment, so that an ADD that finds it right has asked the kernel one question. A table that is
 * not right is replaced in one transaction: there is no moment without it, and processes that do the same at once end with the same.
 */
import { type Family, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Sysctl } from "../desired-state.ts";
import { attributeMap } from "../netlink/attribute.ts";
import { NETLINK_NETFILTER, NetlinkError, NetlinkSocket } from "../netlink/socket.ts";
import {
  deleteTable,
  getTable,
  NFGENMSG_BYTES,
  NFTA_TABLE_USERDATA,
  newTable,
  type TableFamily,
  transaction,
} from "../nftables/message.ts";
import { TABLE, type TableContent, tableRequests } from "../nftables/table.ts";
import type { NodeState } from "../node-state.ts";
import { differingSysctls, writeSysctls } from "./sysctl.ts";

const EPERM = 1;
const ENOENT = 2;
/** Part of the fingerprint: raised when the rules change, so that a new version replaces the table of an old one. */
const RULES_VERSION = 2;
/** One table for both families; kernels before 5.2 have no NAT in those, and then there are two. */
const TABLE_SETS: readonly (readonly TableFamily[])[] = [["inet"], ["ip", "ip6"]];

/** @throws TortieError `sysctl-failed`, `nat-failed` */
export function applyNodeState(state: NodeState): void {
  writeSysctls(differingSysctls(state.forwardedFamilies.map(forwarding)));
  ensureTable(state);
}

/** What the reference `ptp` plugin switches on as well. */
function forwarding(family: Family): Sysctl {
  const path = family === 4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding";
  return { path, value: "1", required: true };
}

/** Makes sure that the kernel has our table with this content, and, without any content, that it has none. */
function ensureTable(content: TableContent): void {
  const isEmpty = content.masquerading.outgoing.length === 0 && content.guardedPrefixes.length === 0;
  if (isEmpty) removeTable();
  else replaceTable(content);
}

function replaceTable(content: TableContent): void {
  const comment = `masquerading and loopback guard of tortie's pods, ${fingerprint(content)}`;
  explained(`failed to make nftables table ${TABLE}`, (socket) => {
    if (TABLE_SETS.some((families) => families.every((family) => commentOf(socket, family) === comment))) return;
    write(socket, content, comment);
  });
}

/** Removes our table in every family. Succeeds if there is none. */
function removeTable(): void {
  explained(`failed to remove nftables table ${TABLE}`, (socket) => {
    for (const family of TABLE_SETS.flat()) {
      if (commentOf(socket, family) === undefined) continue;
      socket.batch(transaction(emptying(family)));
    }
  });
}

function write(socket: NetlinkSocket, content: TableContent, comment: string): void {
  let refusal: unknown;
  for (const families of TABLE_SETS) {
    try {
      socket.batch(
        transaction(families.flatMap((family) => [...emptying(family), ...tableRequests(family, content, commentData(comment))])),
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

function fingerprint({ masquerading, guardedPrefixes }: TableContent): string {
  const texts = (prefixes: readonly Prefix[]) => [...new Set(prefixes.map(formatPrefix))].sort();
  const content = JSON.stringify([RULES_VERSION, texts(masquerading.outgoing), texts(masquerading.pools), guardedPrefixes]);
  return Bun.hash(content).toString(16).padStart(16, "0");
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
