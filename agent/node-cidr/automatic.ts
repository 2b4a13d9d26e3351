/** Ranges for a node that was given none, derived from its own address (A§1.4). Pure. */
import { type Address, bytesOf, type Prefix } from "../../lib/addresses/address.ts";

/** 10.<x>.0.0/16: x is the last octet of the host's address, or octet 11 of an IPv6 range that the node was given. */
export function automaticIpv4(hostAddress: Address | undefined, givenIpv6: Prefix | undefined): Prefix | undefined {
  const octet = givenIpv6 === undefined ? lastOctet(hostAddress) : bytesOf(givenIpv6.address)[11];
  if (octet === undefined) return undefined;
  return { address: { family: 4, value: (10n << 24n) | (BigInt(octet) << 16n) }, length: 16 };
}

/** A /96 below the cluster's /64: the four octets of the IPv4 range follow the prefix. */
export function automaticIpv6(ipv4: Prefix, clusterPrefix: Prefix): Prefix {
  return { address: { family: 6, value: clusterPrefix.address.value | (ipv4.address.value << 32n) }, length: 96 };
}

function lastOctet(address: Address | undefined): number | undefined {
  return address === undefined ? undefined : bytesOf(address).at(-1);
}
