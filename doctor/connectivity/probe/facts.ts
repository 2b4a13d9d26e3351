/** Reads what the kernel of a host says about the way of a pod's packets. Changes nothing, and needs no privilege. */
import { existsSync, readFileSync } from "node:fs";
import { HostSockets } from "../../../dataplane/netlink/host-sockets.ts";
import { addressOf, bytes, NetlinkError, parseStructure, readText, readU32 } from "../../../dataplane/netlink/message.ts";
import type { Netlink } from "../../../dataplane/netlink/socket.ts";
import { askForLink, getLink, IFINFOMSG_BYTES, parseLink } from "../../../dataplane/rtnetlink/link.ts";
import { RTM_GETROUTE, RTMSG_BYTES, routePayload } from "../../../dataplane/rtnetlink/route.ts";
import { bitsOf, bytesOf, formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import type { EndFacts, FactsWanted, HostFacts, Way } from "../question.ts";

/** include/uapi/linux/if_link.h, include/uapi/linux/rtnetlink.h */
const IFLA_QDISC = 6;
const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const EINVAL = 22;

const NO_WAY: Way = { device: "" };
const BLACKHOLE: Way = { device: "blackhole" };

const FORWARDING = { "4": "ipv4/ip_forward", "6": "ipv6/conf/all/forwarding" };

/** Looks at this network namespace as that of a host. */
export function readHostFacts({ ends, addresses }: FactsWanted): HostFacts {
  using host = new HostSockets();
  return {
    forwarding: Object.fromEntries(Object.entries(FORWARDING).map(([family, path]) => [family, setting(path) === "1"])),
    ends: Object.fromEntries(ends.flatMap((name) => endNamed(host.route, name))),
    ways: Object.fromEntries(addresses.map((address) => [address, wayTo(host.route, address)])),
  };
}

/** Returns the MTU of an interface of this network namespace, or `undefined` where there is none of that name. */
export function mtuOf(name: string): number | undefined {
  using own = new HostSockets();
  return getLink(own.route, { name })?.mtu;
}

function endNamed(socket: Netlink, name: string): [string, EndFacts][] {
  const message = askForLink(socket, { name });
  if (message === undefined) return [];
  const queue = readText(parseStructure(message, IFINFOMSG_BYTES).attributes.get(IFLA_QDISC)) ?? "";
  const [proxyArp, forwards] = ["proxy_arp", "forwarding"].map((word) => setting(`ipv4/conf/${name}/${word}`) === "1");
  return [[name, { mtu: parseLink(message).mtu, proxyArp: proxyArp === true, forwards: forwards === true, queue }]];
}

function wayTo(socket: Netlink, text: string): Way {
  const address = parseAddress(text);
  if (address === undefined) return NO_WAY;
  const { family } = address;
  const payload = routePayload({ family, length: bitsOf(family), table: 0 }, [bytes(RTA_DST, bytesOf(address))]);
  try {
    const [found] = socket.request({ type: RTM_GETROUTE, payload }).map((message) => parseStructure(message, RTMSG_BYTES));
    const [index, gateway] = [readU32(found?.attributes.get(RTA_OIF)), found?.attributes.get(RTA_GATEWAY)];
    // The table is anybody's: a host may have rules that choose one.
    if (index === undefined) return BLACKHOLE;
    const device = getLink(socket, { index })?.name ?? "";
    return { device, ...(gateway !== undefined && { gateway: formatAddress(addressOf(family, gateway)) }) };
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    // What a lookup that ends in a blackhole is answered with (net/ipv4/fib_semantics.c, fib_props).
    return error.errno === EINVAL ? BLACKHOLE : NO_WAY;
  }
}

/** Tells whether no route of this network namespace leads to the address: the runtime says "refused" for that too. */
export function isUnreachable(address: string): boolean {
  using own = new HostSockets();
  return wayTo(own.route, address).device === "";
}

function setting(path: string): string {
  const file = `/proc/sys/net/${path}`;
  return existsSync(file) ? readFileSync(file, "utf8").trim() : "";
}
