/** Families of addresses that a configuration asks for. */
import type { Family } from "../lib/addresses/address.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";

/** An ADD of no particular address gets one address of each of these, or none at all. */
export function familiesSwitchedOn({ ipam: { assignIpv4, assignIpv6 } }: Pick<NetworkConfig, "ipam">): readonly Family[] {
  return ([4, 6] as const).filter((family) => (family === 4 ? assignIpv4 : assignIpv6));
}
