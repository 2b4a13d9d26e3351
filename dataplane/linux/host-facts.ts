/**
 * What the host itself has in the kernel, apart from any attachment: addresses of all links, and routes of the main table, without those
 * to other nodes that an agent made by what the cluster said (review, S1: they must not decide about this node's own addresses).
 */
import { type Address, bitsOf, type Prefix } from "../../lib/addresses/address.ts";
import { attributeMap } from "../netlink/attribute.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import type { Netlink } from "../netlink/socket.ts";
import { type Link, listLinks } from "../rtnetlink/link.ts";
import { NODE_ROUTE_PROTOCOL } from "../rtnetlink/node-route.ts";
import { listRoutes } from "../rtnetlink/route.ts";
import { addressOf, familyOf } from "../rtnetlink/wire.ts";

const RTM_GETADDR = 22;
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
/** struct ifaddrmsg (include/uapi/linux/if_addr.h). */
const ADDRESS_HEADER = 8;

export interface HostLinkAddress {
  readonly address: Address;
  /** Prefix length. */
  readonly length: number;
  readonly link: string;
  /** Of the link. */
  readonly index: number;
  readonly mtu: number;
  readonly isUp: boolean;
  /** RT_SCOPE_*: 0 is global. */
  readonly scope: number;
}

export interface HostRoute {
  readonly destination: Prefix;
  readonly link: string;
  /** It has a gateway or a preferred source, as routes of pods' addresses do not. */
  readonly leadsElsewhere: boolean;
}

/** @throws NetlinkError */
export function readHostFacts({ route: socket }: HostSockets): {
  readonly addresses: readonly HostLinkAddress[];
  readonly routes: readonly HostRoute[];
} {
  const links = new Map(listLinks(socket).map((link) => [link.index, link]));
  const found = [...listRoutes(socket, 4), ...listRoutes(socket, 6)].filter(({ protocol }) => protocol !== NODE_ROUTE_PROTOCOL);
  const routes = found.map(({ destination, index, gateway, hasSource }) => ({
    destination,
    link: links.get(index)?.name ?? "",
    leadsElsewhere: gateway !== undefined || hasSource,
  }));
  return { addresses: addressesOfHost(socket, links), routes };
}

/** Every address of every link. @throws NetlinkError */
export function addressesOfHost(
  socket: Netlink,
  links: ReadonlyMap<number, Link> = new Map(listLinks(socket).map((link) => [link.index, link])),
): readonly HostLinkAddress[] {
  return socket.dump({ type: RTM_GETADDR, payload: new Uint8Array(ADDRESS_HEADER) }).flatMap(({ payload }) => {
    const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
    const family = familyOf(view.getUint8(0));
    const attributes = attributeMap(payload.subarray(ADDRESS_HEADER));
    const octets = attributes.get(IFA_LOCAL) ?? attributes.get(IFA_ADDRESS);
    if (family === undefined || octets === undefined || octets.length * 8 !== bitsOf(family)) return [];
    const index = view.getUint32(4, true);
    const { name: link = "", isUp = false, mtu = 0 } = links.get(index) ?? {};
    const address = addressOf(family, octets);
    return [{ address, length: view.getUint8(1), index, link, mtu, isUp, scope: view.getUint8(3) }];
  });
}
