/** The way of packets from this node to another's addresses, by their pool (I§2.7) and by where the two nodes are. Pure. */
import { type Address, contains, covers, type Prefix } from "../../lib/addresses/address.ts";
import type { RoutedPool } from "./model.ts";

export type Way =
  | { readonly kind: "direct" }
  | { readonly kind: "tunnel" }
  /** Another router must carry them; `reason` is absent where the pool intends that. */
  | { readonly kind: "none"; readonly reason?: string };

const DIRECT: Way = { kind: "direct" };
const TUNNEL: Way = { kind: "tunnel" };

/** The pool with the longest prefix that covers it; addresses of a pool that was deleted have none. */
export function poolOf(cidr: Prefix, pools: readonly RoutedPool[]): RoutedPool | undefined {
  let best: RoutedPool | undefined;
  for (const pool of pools) {
    if (covers(pool.cidr, cidr) && (best === undefined || pool.cidr.length > best.cidr.length)) best = pool;
  }
  return best;
}

/**
 * @param own this node's address with its subnet
 * @param peer address of the other node
 */
export function wayTo(pool: RoutedPool | undefined, own: Prefix, peer: Address, mayTunnel: boolean): Way {
  const { vxlanMode = "Never", ipipMode = "Never", name = "" } = pool ?? {};
  const isNear = contains(own, peer);
  const wantsVxlan = vxlanMode === "Always" || (vxlanMode === "CrossSubnet" && !isNear);
  if (wantsVxlan) return mayTunnel ? TUNNEL : none(`pool ${name} wants VXLAN, and --node-routes is direct`);
  const wantsIpip = ipipMode === "Always" || (ipipMode === "CrossSubnet" && !isNear);
  if (wantsIpip) return none(`pool ${name} wants IPIP, which BIRD does`);
  // Without encapsulation the network's own routers know the way to other subnets, by BGP or by hand.
  return isNear ? DIRECT : { kind: "none" };
}

function none(reason: string): Way {
  return { kind: "none", reason };
}
