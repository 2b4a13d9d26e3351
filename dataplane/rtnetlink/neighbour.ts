/**
 * Neighbours that are known without asking, and where a tunnel device sends the frames for a MAC, its forwarding database
 * (include/uapi/linux/neighbour.h; drivers/net/vxlan/vxlan_core.c, vxlan_fdb_parse).
 */
import { type Address, bytesOf, type Family, formatAddress } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Neighbour } from "../desired-state.ts";
import {
  type Attribute,
  addressOf,
  bytes,
  NLM_F_CREATE,
  NLM_F_REPLACE,
  numberOf,
  parseStructure,
  structure,
  unlessMissing,
} from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { formatMac, macBytes } from "./link.ts";

export const RTM_NEWNEIGH = 28;
export const RTM_DELNEIGH = 29;
const RTM_GETNEIGH = 30;
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NUD_PERMANENT = 0x80;
/** Says that the entry is the device's own, not that of a bridge it is in. */
const NTF_SELF = 0x02;
const AF_BRIDGE = 7;
export const NDMSG_BYTES = 12;

/** Pairs address and MAC: a neighbour, or an entry of the forwarding database. */
export interface PeerEntry {
  readonly address: Address;
  readonly mac: string;
}

/** Names the table. `neighbours`: by address. `forwarding`: by MAC; the address is where the frames are sent. */
export type PeerTable = "neighbours" | "forwarding";

/** @throws TortieError `neighbour-failed` */
export function addNeighbour(socket: Netlink, index: number, neighbour: Neighbour): void {
  try {
    setPeer(socket, index, "neighbours", neighbour);
  } catch (error) {
    throw new TortieError("neighbour-failed", `failed to add neighbour ${formatAddress(neighbour.address)}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Finds the MAC of a permanent neighbour; `undefined` without such a neighbour. @throws NetlinkError */
export function findNeighbour(socket: Netlink, index: number, address: Address): string | undefined {
  const payload = entryPayload(index, "neighbours", address.family, 0, [bytes(NDA_DST, bytesOf(address))]);
  const [message] = unlessMissing(() => socket.request({ type: RTM_GETNEIGH, payload })) ?? [];
  const found = message && parseStructure(message, NDMSG_BYTES);
  if (found === undefined || !isPermanent(found.view)) return undefined;
  return formatMac(found.attributes.get(NDA_LLADDR) ?? new Uint8Array());
}

/** Lists the permanent entries of one family. @throws NetlinkError */
export function listPeers(socket: Netlink, index: number, table: PeerTable, family: Family): PeerEntry[] {
  // A question with flags is refused (net/core/rtnetlink.c, valid_fdb_dump_strict).
  const payload = structure(NDMSG_BYTES, (view) => view.setUint8(0, headerOf(table, family)));
  return socket.dump({ type: RTM_GETNEIGH, payload }).flatMap((message) => {
    const { view, attributes } = parseStructure(message, NDMSG_BYTES);
    if (view.getInt32(4, true) !== index || !isPermanent(view)) return [];
    const [address, mac] = [attributes.get(NDA_DST), attributes.get(NDA_LLADDR)];
    if (address === undefined || mac === undefined || address.length !== (family === 4 ? 4 : 16)) return [];
    return [{ address: addressOf(family, address), mac: formatMac(mac) }];
  });
}

/** Replaces what the table has for the address, or for the MAC. @throws NetlinkError */
export function setPeer(socket: Netlink, index: number, table: PeerTable, { address, mac }: PeerEntry): void {
  const attributes = [bytes(NDA_DST, bytesOf(address)), bytes(NDA_LLADDR, macBytes(mac))];
  const payload = entryPayload(index, table, address.family, NUD_PERMANENT, attributes);
  socket.request({ type: RTM_NEWNEIGH, flags: NLM_F_CREATE | NLM_F_REPLACE, payload });
}

/** @throws NetlinkError; ENOENT without such an entry */
export function removePeer(socket: Netlink, index: number, table: PeerTable, { address, mac }: PeerEntry): void {
  const attributes = [bytes(NDA_DST, bytesOf(address)), ...(table === "forwarding" ? [bytes(NDA_LLADDR, macBytes(mac))] : [])];
  socket.request({ type: RTM_DELNEIGH, payload: entryPayload(index, table, address.family, 0, attributes) });
}

function isPermanent(view: DataView): boolean {
  return (view.getUint16(8, true) & NUD_PERMANENT) !== 0;
}

function headerOf(table: PeerTable, family: Family): number {
  return table === "forwarding" ? AF_BRIDGE : numberOf(family);
}

/** Writes struct ndmsg and attributes. */
function entryPayload(index: number, table: PeerTable, family: Family, state: number, attributes: readonly Attribute[]): Uint8Array {
  const fill = (view: DataView) => {
    view.setUint8(0, headerOf(table, family));
    view.setInt32(4, index, true);
    view.setUint16(8, state, true);
    view.setUint8(10, table === "forwarding" ? NTF_SELF : 0);
  };
  return structure(NDMSG_BYTES, fill, attributes);
}
