/** Where this node is reached: by its Node object, checked against what its kernel has. Pure. */
import { type Address, type Family, formatAddress, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { type ByFamily, byFamily, FAMILIES, type OwnNode, type RoutedNode } from "./model.ts";

/** An address of one of the host's links. */
interface HostAddress {
  readonly address: Address;
  /** Prefix length. */
  readonly length: number;
  /** Of the link. */
  readonly mtu: number;
  readonly isUp: boolean;
}

/**
 * Of the addresses that the Node object names, the one that a link of this host has. The recorded prefix length counts: an administrator
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
 * What is to be merged into the Node object's annotations so that every other node, whichever agent it runs, finds this one. A tunnel
 * that is not there any more is taken back; an address is never taken back, since others than us may rely on it.
 * @returns `undefined`: they say it
 */
export function annotationsFor(
  node: RoutedNode,
  { underlay, tunnels }: Pick<OwnNode, "underlay" | "tunnels">,
): Readonly<Record<string, string | null>> | undefined {
  const patch: Record<string, string | null> = {};
  for (const family of FAMILIES) {
    const [here, end] = [underlay[family]?.address, tunnels[family]?.address];
    if (here !== undefined && textOf(node.recorded, family) !== formatPrefix(here)) patch[ADDRESS[family]] = formatPrefix(here);
    const wanted = end && formatAddress(end);
    // Whether it holds or not: what differs from this node's end is corrected.
    const isShown = node.claims.tunnels[family]?.prove(({ address }) => formatAddress(address) === wanted);
    if (isShown !== true && (wanted !== undefined || isShown !== undefined)) patch[TUNNEL_ADDRESS[family]] = wanted ?? null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

function textOf(recorded: ByFamily<Prefix>, family: Family): string {
  const prefix = recorded[family];
  return prefix === undefined ? "" : formatPrefix(prefix);
}
