/** Addresses of an interface by rtnetlink (include/uapi/linux/if_addr.h). */
import { bytesOf, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { attributeMap, bytes, encodeAttributes, readU32, u32 } from "../netlink/attribute.ts";
import { NLM_F_CREATE, NLM_F_EXCL } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { addressOf, familyOf, numberOf } from "./wire.ts";

const RTM_NEWADDR = 20;
const RTM_DELADDR = 21;
const RTM_GETADDR = 22;
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const IFA_FLAGS = 8;
const IFA_F_NODAD = 0x02;
export const IFA_F_DADFAILED = 0x08;
export const IFA_F_TENTATIVE = 0x40;

export interface InterfaceAddress {
  readonly prefix: Prefix;
  /** IFA_F_* */
  readonly flags: number;
  /** RT_SCOPE_*: 0 is global. */
  readonly scope: number;
}

/**
 * Adds an address with global scope, or link scope for an IPv6 link-local one (the kernel tells by itself).
 * @param isDadSkipped sets IFA_F_NODAD: the address is usable at once whatever the interface's settings say
 * @throws NetlinkError; EEXIST when the interface has it already
 */
export function addAddress(socket: Netlink, index: number, prefix: Prefix, isDadSkipped: boolean): void {
  const address = bytesOf(prefix.address);
  const attributes = [bytes(IFA_LOCAL, address), bytes(IFA_ADDRESS, address), ...(isDadSkipped ? [u32(IFA_FLAGS, IFA_F_NODAD)] : [])];
  const payload = addressPayload(numberOf(prefix.address.family), prefix.length, index, encodeAttributes(attributes));
  socket.request({ type: RTM_NEWADDR, flags: NLM_F_CREATE | NLM_F_EXCL, payload });
}

/** @throws NetlinkError; EADDRNOTAVAIL when the interface does not have it */
export function removeAddress(socket: Netlink, index: number, prefix: Prefix): void {
  const attributes = encodeAttributes([bytes(IFA_LOCAL, bytesOf(prefix.address))]);
  socket.request({ type: RTM_DELADDR, payload: addressPayload(numberOf(prefix.address.family), prefix.length, index, attributes) });
}

/**
 * Every address of an interface, both families.
 * @param most number of addresses that are read at most
 * @throws DumpTooLargeError, NetlinkError
 */
export function listAddresses(socket: Netlink, index: number, most?: number): InterfaceAddress[] {
  const messages = socket.dump({ type: RTM_GETADDR, payload: addressPayload(0, 0, index, new Uint8Array()) }, most);
  return messages.flatMap(({ payload }) => {
    const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
    const family = familyOf(view.getUint8(0));
    const attributes = attributeMap(payload.subarray(8));
    // IFA_ADDRESS is the other end's address where there is one; only IFA_LOCAL is always ours, but IPv6 may leave it out.
    const local = attributes.get(IFA_LOCAL) ?? attributes.get(IFA_ADDRESS);
    if (family === undefined || local === undefined || view.getUint32(4, true) !== index) return [];
    const flags = readU32(attributes.get(IFA_FLAGS)) ?? view.getUint8(2);
    return [{ prefix: { address: addressOf(family, local), length: view.getUint8(1) }, flags, scope: view.getUint8(3) }];
  });
}

/** The one of `addresses` with this address and length. */
export function findAddress(addresses: readonly InterfaceAddress[], prefix: Prefix): InterfaceAddress | undefined {
  return addresses.find((address) => formatPrefix(address.prefix) === formatPrefix(prefix));
}

function addressPayload(family: number, length: number, index: number, attributes: Uint8Array): Uint8Array {
  const result = new Uint8Array(8 + attributes.length);
  const view = new DataView(result.buffer);
  view.setUint8(0, family);
  view.setUint8(1, length);
  view.setUint32(4, index, true);
  result.set(attributes, 8);
  return result;
}
