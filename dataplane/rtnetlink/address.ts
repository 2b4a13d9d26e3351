/** Reads and changes addresses of interfaces by rtnetlink (include/uapi/linux/if_addr.h). */
import { bitsOf, bytesOf, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import {
  type Attribute,
  addressOf,
  bytes,
  familyOf,
  NLM_F_CREATE,
  NLM_F_EXCL,
  numberOf,
  parseStructure,
  readU32,
  structure,
  u32,
} from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";

export const RTM_NEWADDR = 20;
export const RTM_DELADDR = 21;
const RTM_GETADDR = 22;
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const IFA_FLAGS = 8;
const IFA_F_NODAD = 0x02;
export const IFA_F_DADFAILED = 0x08;
export const IFA_F_TENTATIVE = 0x40;
export const IFADDRMSG_BYTES = 8;

interface InterfaceAddress {
  readonly prefix: Prefix;
  /** Identifies the link. */
  readonly index: number;
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
  socket.request({ type: RTM_NEWADDR, flags: NLM_F_CREATE | NLM_F_EXCL, payload: addressPayload(index, prefix, attributes) });
}

/** @throws NetlinkError; EADDRNOTAVAIL when the interface does not have it */
export function removeAddress(socket: Netlink, index: number, prefix: Prefix): void {
  socket.request({ type: RTM_DELADDR, payload: addressPayload(index, prefix, [bytes(IFA_LOCAL, bytesOf(prefix.address))]) });
}

/**
 * Lists every address of an interface, both families; of every interface when `index` is 0.
 * @param most number of addresses that are read at most
 * @throws DumpTooLargeError, NetlinkError
 */
export function listAddresses(socket: Netlink, index: number, most?: number): InterfaceAddress[] {
  const payload = structure(IFADDRMSG_BYTES, (view) => view.setUint32(4, index, true));
  return socket.dump({ type: RTM_GETADDR, payload }, most).flatMap((message) => {
    const { view, attributes } = parseStructure(message, IFADDRMSG_BYTES);
    const family = familyOf(view.getUint8(0));
    // IFA_ADDRESS is the other end's address where there is one; only IFA_LOCAL is always ours, but IPv6 may leave it out.
    const local = attributes.get(IFA_LOCAL) ?? attributes.get(IFA_ADDRESS);
    const found = view.getUint32(4, true);
    if (family === undefined || local === undefined || local.length * 8 !== bitsOf(family) || (index !== 0 && found !== index)) return [];
    const flags = readU32(attributes.get(IFA_FLAGS)) ?? view.getUint8(2);
    const prefix = { address: addressOf(family, local), length: view.getUint8(1) };
    return [{ prefix, index: found, flags, scope: view.getUint8(3) }];
  });
}

/** Finds the one of `addresses` with this address and length. */
export function findAddress(addresses: readonly InterfaceAddress[], prefix: Prefix): InterfaceAddress | undefined {
  return addresses.find((address) => formatPrefix(address.prefix) === formatPrefix(prefix));
}

/** Writes struct ifaddrmsg and attributes. */
function addressPayload(index: number, { address, length }: Prefix, attributes: readonly Attribute[]): Uint8Array {
  const fill = (view: DataView) => {
    view.setUint8(0, numberOf(address.family));
    view.setUint8(1, length);
    view.setUint32(4, index, true);
  };
  return structure(IFADDRMSG_BYTES, fill, attributes);
}
