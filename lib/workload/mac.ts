/** MAC addresses, read as Go's net.ParseMAC reads them, which is what Calico's users are used to (recordings hwaddr-*). */

/** Canonical text: six octets in lower case, joined by colons. */
export type MacAddress = string;

/** "00:00:5e:00:53:01" with one separator throughout, or "0000.5e00.5301"; Go takes the same shapes for 8 and 20 octets. */
const PAIRS = /^[0-9a-f]{2}(?:(?::[0-9a-f]{2})+|(?:-[0-9a-f]{2})+)$/i;
const QUADS = /^[0-9a-f]{4}(?:\.[0-9a-f]{4})+$/i;

const ETHERNET_OCTETS = 6;

/** What is wrong with an address that `isAssignableMac` refuses. */
export const UNASSIGNABLE_MAC = "a multicast or all-zero address cannot be that of an interface";

export type ParsedMac = { readonly mac: MacAddress } | { readonly reason: string };

/**
 * Only six octets are a MAC address here. Calico also takes EUI-64, whose last two octets the kernel drops without a word while
 * the CNI result goes on showing them (recording hwaddr-eui64, a deliberate difference).
 */
export function parseMac(text: string): ParsedMac {
  if (!PAIRS.test(text) && !QUADS.test(text)) return { reason: "invalid MAC address" };
  const digits = text.toLowerCase().replaceAll(/[:.-]/g, "");
  if (digits.length !== ETHERNET_OCTETS * 2)
    return { reason: `invalid MAC address: ${digits.length / 2} octets instead of ${ETHERNET_OCTETS}` };
  return { mac: octetsOf(digits).join(":") };
}

/**
 * Whether a link can have this address: is_valid_ether_addr of include/linux/etherdevice.h, neither multicast nor all zero.
 * The kernel refuses the others with EADDRNOTAVAIL when everything else is already there (recording hwaddr-multicast).
 */
export function isAssignableMac(mac: MacAddress): boolean {
  const octets = mac.split(":").map((octet) => Number.parseInt(octet, 16));
  return ((octets[0] ?? 0) & 1) === 0 && octets.some((octet) => octet !== 0);
}

function octetsOf(digits: string): string[] {
  return Array.from({ length: digits.length / 2 }, (_, index) => digits.slice(index * 2, index * 2 + 2));
}
