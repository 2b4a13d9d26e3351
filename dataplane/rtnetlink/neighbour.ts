/** Neighbours that are known without asking, by rtnetlink (include/uapi/linux/neighbour.h). */
import { type Address, bytesOf, formatAddress } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Neighbour } from "../desired-state.ts";
import { attributeMap, bytes, encodeAttributes } from "../netlink/attribute.ts";
import { NLM_F_CREATE, NLM_F_REPLACE } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { formatMac, macBytes } from "./link.ts";
import { numberOf } from "./wire.ts";

const RTM_NEWNEIGH = 28;
const RTM_GETNEIGH = 30;
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NUD_PERMANENT = 0x80;
const NDMSG_BYTES = 12;

/** @throws TortieError `neighbour-failed` */
export function addNeighbour(socket: NetlinkSocket, index: number, neighbour: Neighbour): void {
  const payload = neighbourPayload(index, neighbour);
  try {
    socket.request({ type: RTM_NEWNEIGH, flags: NLM_F_CREATE | NLM_F_REPLACE, payload });
  } catch (error) {
    throw new TortieError("neighbour-failed", `failed to add neighbour ${formatAddress(neighbour.address)}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/**
 * The MAC of a permanent neighbour; `undefined` when there is no such neighbour.
 * @param most number of neighbours that are read at most
 * @throws DumpTooLargeError, NetlinkError
 */
export function findNeighbour(socket: NetlinkSocket, index: number, address: Address, most?: number): string | undefined {
  const wanted = bytesOf(address);
  for (const { payload } of socket.dump({ type: RTM_GETNEIGH, payload: new Uint8Array(NDMSG_BYTES) }, most)) {
    const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
    if (view.getInt32(4, true) !== index || (view.getUint16(8, true) & NUD_PERMANENT) === 0) continue;
    const attributes = attributeMap(payload.subarray(NDMSG_BYTES));
    const found = attributes.get(NDA_DST);
    if (found?.length === wanted.length && wanted.every((octet, at) => octet === found[at])) {
      return formatMac(attributes.get(NDA_LLADDR) ?? new Uint8Array());
    }
  }
  return undefined;
}

/** struct ndmsg and attributes. */
function neighbourPayload(index: number, { address, mac }: Neighbour): Uint8Array {
  const tail = encodeAttributes([bytes(NDA_DST, bytesOf(address)), bytes(NDA_LLADDR, macBytes(mac))]);
  const result = new Uint8Array(NDMSG_BYTES + tail.length);
  const view = new DataView(result.buffer);
  view.setUint8(0, numberOf(address.family));
  view.setInt32(4, index, true);
  view.setUint16(8, NUD_PERMANENT, true);
  result.set(tail, NDMSG_BYTES);
  return result;
}
