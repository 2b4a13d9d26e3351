/**
 * What a tunnel device knows of its peers: permanent neighbours, and where the frames for a MAC are sent, its forwarding database
 * (include/uapi/linux/neighbour.h; drivers/net/vxlan/vxlan_core.c, vxlan_fdb_parse).
 */
import { type Address, bytesOf, type Family } from "../../lib/addresses/address.ts";
import { attributeMap, bytes, encodeAttributes } from "../netlink/attribute.ts";
import { NLM_F_CREATE, NLM_F_REPLACE } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { formatMac, macBytes } from "./link.ts";
import { addressOf, numberOf } from "./wire.ts";

const RTM_NEWNEIGH = 28;
const RTM_DELNEIGH = 29;
const RTM_GETNEIGH = 30;
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NUD_PERMANENT = 0x80;
/** The entry is the device's own, not that of a bridge it is in. */
const NTF_SELF = 0x02;
const AF_BRIDGE = 7;
const NDMSG_BYTES = 12;

/** A pair of address and MAC: a neighbour, or an entry of the forwarding database. */
export interface PeerEntry {
  readonly address: Address;
  readonly mac: string;
}

/** `neighbours`: by address. `forwarding`: by MAC; the address is where the frames are sent. */
export type PeerTable = "neighbours" | "forwarding";

/** The permanent entries of one family. @throws NetlinkError */
export function listPeers(socket: Netlink, index: number, table: PeerTable, family: Family): PeerEntry[] {
  const payload = entryPayload(0, headerOf(table, family), 0, new Uint8Array());
  return socket.dump({ type: RTM_GETNEIGH, payload }).flatMap(({ payload }) => {
    const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
    if (view.getInt32(4, true) !== index || (view.getUint16(8, true) & NUD_PERMANENT) === 0) return [];
    const attributes = attributeMap(payload.subarray(NDMSG_BYTES));
    const [address, mac] = [attributes.get(NDA_DST), attributes.get(NDA_LLADDR)];
    if (address === undefined || mac === undefined || address.length !== (family === 4 ? 4 : 16)) return [];
    return [{ address: addressOf(family, address), mac: formatMac(mac) }];
  });
}

/** Replaces what the table has for the address, or for the MAC. @throws NetlinkError */
export function setPeer(socket: Netlink, index: number, table: PeerTable, { address, mac }: PeerEntry): void {
  const attributes = encodeAttributes([bytes(NDA_DST, bytesOf(address)), bytes(NDA_LLADDR, macBytes(mac))]);
  const payload = entryPayload(index, headerOf(table, address.family), NUD_PERMANENT, attributes, table);
  socket.request({ type: RTM_NEWNEIGH, flags: NLM_F_CREATE | NLM_F_REPLACE, payload });
}

/** @throws NetlinkError; ENOENT when there is no such entry */
export function removePeer(socket: Netlink, index: number, table: PeerTable, { address, mac }: PeerEntry): void {
  const attributes = [bytes(NDA_DST, bytesOf(address)), ...(table === "forwarding" ? [bytes(NDA_LLADDR, macBytes(mac))] : [])];
  const payload = entryPayload(index, headerOf(table, address.family), 0, encodeAttributes(attributes), table);
  socket.request({ type: RTM_DELNEIGH, payload });
}

function headerOf(table: PeerTable, family: Family): number {
  return table === "forwarding" ? AF_BRIDGE : numberOf(family);
}

/** struct ndmsg and attributes. */
function entryPayload(index: number, family: number, state: number, attributes: Uint8Array, table?: PeerTable): Uint8Array {
  const result = new Uint8Array(NDMSG_BYTES + attributes.length);
  const view = new DataView(result.buffer);
  view.setUint8(0, family);
  view.setInt32(4, index, true);
  view.setUint16(8, state, true);
  view.setUint8(10, table === "forwarding" ? NTF_SELF : 0);
  result.set(attributes, NDMSG_BYTES);
  return result;
}
