/** Neighbours that are known without asking, by rtnetlink (include/uapi/linux/neighbour.h). */
import { type Address, bytesOf, formatAddress } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Neighbour } from "../desired-state.ts";
import { type Attribute, attributeMap, bytes, encodeAttributes } from "../netlink/attribute.ts";
import { NLM_F_CREATE, NLM_F_REPLACE } from "../netlink/message.ts";
import { type Netlink, NetlinkError } from "../netlink/socket.ts";
import { formatMac, macBytes } from "./link.ts";
import { numberOf } from "./wire.ts";

const RTM_NEWNEIGH = 28;
const RTM_GETNEIGH = 30;
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NUD_PERMANENT = 0x80;
const NDMSG_BYTES = 12;
const ENOENT = 2;

/** @throws TortieError `neighbour-failed` */
export function addNeighbour(socket: Netlink, index: number, neighbour: Neighbour): void {
  const { address, mac } = neighbour;
  const payload = neighbourPayload(index, address, NUD_PERMANENT, [bytes(NDA_DST, bytesOf(address)), bytes(NDA_LLADDR, macBytes(mac))]);
  try {
    socket.request({ type: RTM_NEWNEIGH, flags: NLM_F_CREATE | NLM_F_REPLACE, payload });
  } catch (error) {
    throw new TortieError("neighbour-failed", `failed to add neighbour ${formatAddress(neighbour.address)}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** The MAC of a permanent neighbour; `undefined` when there is no such neighbour. @throws NetlinkError */
export function findNeighbour(socket: Netlink, index: number, address: Address): string | undefined {
  try {
    const payload = neighbourPayload(index, address, 0, [bytes(NDA_DST, bytesOf(address))]);
    const [message] = socket.request({ type: RTM_GETNEIGH, payload });
    if (
      message === undefined ||
      (new DataView(message.payload.buffer, message.payload.byteOffset).getUint16(8, true) & NUD_PERMANENT) === 0
    ) {
      return undefined;
    }
    return formatMac(attributeMap(message.payload.subarray(NDMSG_BYTES)).get(NDA_LLADDR) ?? new Uint8Array());
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENOENT) return undefined;
    throw error;
  }
}

/** struct ndmsg and attributes. */
function neighbourPayload(index: number, { family }: Address, state: number, attributes: readonly Attribute[]): Uint8Array {
  const tail = encodeAttributes(attributes);
  const result = new Uint8Array(NDMSG_BYTES + tail.length);
  const view = new DataView(result.buffer);
  view.setUint8(0, numberOf(family));
  view.setInt32(4, index, true);
  view.setUint16(8, state, true);
  result.set(tail, NDMSG_BYTES);
  return result;
}
