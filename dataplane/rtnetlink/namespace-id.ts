/** The numbers by which a network namespace knows others (rtnetlink(7), include/uapi/linux/net_namespace.h). */
import { attributeMap, encodeAttributes, readU32, u32 } from "../netlink/attribute.ts";
import type { Netlink } from "../netlink/socket.ts";

const RTM_GETNSID = 90;
const NETNSA_NSID = 1;
const NETNSA_FD = 3;
/** struct rtgenmsg, padded. */
const HEADER = 4;
/** NETNSA_NSID_NOT_ASSIGNED, -1. */
const NONE = 0xffff_ffff;

/** @param fd of a namespace @returns its number in the socket's namespace; `undefined` where it has none @throws NetlinkError */
export function namespaceIdOf(socket: Netlink, fd: number): number | undefined {
  const attributes = encodeAttributes([u32(NETNSA_FD, fd)]);
  const payload = new Uint8Array(HEADER + attributes.length);
  payload.set(attributes, HEADER);
  const [answer] = socket.request({ type: RTM_GETNSID, payload });
  const id = answer && readU32(attributeMap(answer.payload.subarray(HEADER)).get(NETNSA_NSID));
  return id === NONE ? undefined : id;
}
