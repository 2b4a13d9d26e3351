/**
 * What a node holds for all attachments, where no Felix does it: forwarding, and one nftables table, made once and not for each pod.
 *
 * The table carries a fingerprint of its content as its comment, so that an ADD that finds it right has asked the kernel one question. A
 * table that is not right is replaced in one transaction: there is no moment without it, and processes that do the same at once end with
 * the same.
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
const RULES_VERSION = 3;
/** One table for both families; kernels before 5.2 have no NAT in those, and then there are two. */
const TABLE_SETS: readonly (readonly TableFamily[])[] = [["inet"], ["ip", "ip6"]];
/** In the comment of a table on a kernel without nft_fib, such as that of WSL 2. Strict `rp_filter` remains there, for IPv4. */
const UNCHECKED = ", sources unchecked";
const CANNOT_CHECK =
  "this kernel's nftables cannot look up a source (CONFIG_NFT_FIB_INET, _IPV4, _IPV6): containers can send from addresses that are not theirs";

/**
 * @returns what this kernel cannot hold, one sentence each
 * @throws TortieError `sysctl-failed`, `nat-failed`
 */
export function applyNodeState(state: NodeState): readonly string[] {
  writeSysctls(differingSysctls(state.forwardedFamilies.map(forwarding)));
  return ensureTable(state);
}

/** What the reference `ptp` plugin switches on as well. */
function forwarding(family: Family): Sysctl {
  const path = family === 4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding";
  return { path, value: "1", required: true };
}

/** Makes sure that the kernel has our table with this content, and, without any content, that it has none. */
function ensureTable(content: TableContent): readonly string[] {
  const isEmpty = content.masquerading.outgoing.length === 0 && content.guardedPrefixes.length === 0;
  if (!isEmpty) return replaceTable(content);
  removeTable();
  return [];
}

function replaceTable(content: TableContent): readonly string[] {
  const comment = `masquerading and guards of tortie's pods, ${fingerprint(content)}`;
  return explained(`failed to make nftables table ${TABLE}`, (socket) => {
    const isRight = (text: string | undefined) => text?.startsWith(comment) === true;
    const found = TABLE_SETS.map((families) => families.map((family) => commentOf(socket, family))).find((texts) => texts.every(isRight));
    const written = found?.[0] ?? write(socket, content, comment);
    return written.endsWith(UNCHECKED) ? [CANNOT_CHECK] : [];
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

/** @returns the comment of the table that the kernel took */
function write(socket: NetlinkSocket, content: TableContent, comment: string): string {
  let refusal: unknown;
  for (const checksSources of [true, false]) {
    const text = checksSources ? comment : comment + UNCHECKED;
    const data = commentData(text);
    for (const families of TABLE_SETS) {
      try {
        socket.batch(
          transaction(families.flatMap((family) => [...emptying(family), ...tableRequests(family, content, data, checksSources)])),
        );
        return text;
      } catch (error) {
        if (!(error instanceof NetlinkError) || error.errno === EPERM) throw error;
        // The refusal of the first kind of table says more than those of the fallbacks.
        refusal ??= error;
      }
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

function explained<T>(what: string, work: (socket: NetlinkSocket) => T): T {
  try {
    using socket = NetlinkSocket.open(NETLINK_NETFILTER);
    return work(socket);
  } catch (error) {
    if (error instanceof NetlinkError) throw new TortieError("nat-failed", `${what}: ${messageOf(error)}`, { cause: error });
    throw error;
  }
}
