/**
 * Finds out where other nodes reach this one: its own address, from the Node object and checked against the kernel, and what its object must
 * say of it.
 */
import type { HostLinkAddress } from "../../dataplane/linux/host-facts.ts";
import { type Address, type Family, formatAddress, formatPrefix } from "../../lib/addresses/address.ts";
import { byFamily, FAMILIES, type OwnNode, type RoutedNode } from "./model.ts";

type HostAddress = Pick<HostLinkAddress, "address" | "length" | "mtu" | "isUp">;

/**
 * Finds the address of those in the Node object that a link of this host has. The recorded prefix length counts: an administrator
 * may have made the subnet larger or smaller than the link's.
 */
export function underlayOf({ recorded, internal }: RoutedNode, host: readonly HostAddress[]): OwnNode["underlay"] {
  return byFamily((family) => {
    const [first, second] = [recorded[family], internal[family]];
    const [known, link] = [linkWith(first?.address, host), linkWith(second, host)];
    if (first !== undefined && known !== undefined) return { address: first, mtu: known.mtu };
    return second === undefined || link === undefined ? undefined : { address: { address: second, length: link.length }, mtu: link.mtu };
  });
}

function linkWith(address: Address | undefined, host: readonly HostAddress[]): HostAddress | undefined {
  if (address === undefined) return undefined;
  return host.find((one) => one.isUp && formatAddress(one.address) === formatAddress(address));
}

const ADDRESS: Readonly<Record<Family, string>> = {
  4: "projectcalico.org/IPv4Address",
  6: "projectcalico.org/IPv6Address",
};
const TUNNEL_ADDRESS: Readonly<Record<Family, string>> = {
  4: "projectcalico.org/IPv4VXLANTunnelAddr",
  6: "projectcalico.org/IPv6VXLANTunnelAddr",
};
const TUNNEL_MAC: Readonly<Record<Family, string>> = {
  4: "projectcalico.org/VXLANTunnelMACAddr",
  6: "projectcalico.org/VXLANTunnelMACAddrV6",
};
/** Where Calico keeps on a Node object what other nodes need to reach it. */
export const NODE_ANNOTATIONS = { address: ADDRESS, tunnelAddress: TUNNEL_ADDRESS, tunnelMac: TUNNEL_MAC } as const;

/**
 * Returns what to merge into the Node object's annotations so that every other node, whichever agent it runs, finds this one. Takes back a
 * tunnel that is not there any more, but never an address, since others than us may rely on it.
 * @returns `undefined` when they say it already
 */
export function annotationsFor(
  node: RoutedNode,
  { underlay, tunnels }: Pick<OwnNode, "underlay" | "tunnels">,
): Readonly<Record<string, string | null>> | undefined {
  const patch: Record<string, string | null> = {};
  for (const family of FAMILIES) {
    const [recorded, here, end] = [node.recorded[family], underlay[family]?.address, tunnels[family]?.address];
    const isRecorded = recorded !== undefined && here !== undefined && formatPrefix(recorded) === formatPrefix(here);
    if (here !== undefined && !isRecorded) patch[ADDRESS[family]] = formatPrefix(here);
    const wanted = end && formatAddress(end);
    // Corrects what differs from this node's end, whether the claim holds or not.
    const isShown = node.claims.tunnels[family]?.prove(({ address }) => formatAddress(address) === wanted);
    if (isShown !== true && (wanted !== undefined || isShown !== undefined)) patch[TUNNEL_ADDRESS[family]] = wanted ?? null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}
