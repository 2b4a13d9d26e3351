/**
 * VXLAN as Calico has it, so that nodes of either kind reach each other: names, numbers and MACs are not negotiated, both sides must
 * arrive at the same.
 */
import type { Family } from "../../lib/addresses/address.ts";

/** Defaults of FelixConfiguration `vxlanVNI` and `vxlanPort`. */
export const VNI = 4096;
export const PORT = 4789;

interface FamilyFacts {
  readonly device: string;
  /** Bytes around a packet: outer IP, UDP, VXLAN and inner Ethernet headers. */
  readonly overhead: number;
  /** Handle of the tunnel address and attribute `type` of it (I§2.4, I§2.5). */
  readonly handlePrefix: string;
  readonly attributeType: string;
  readonly macSuffix: string;
}

export const VXLAN: Readonly<Record<Family, FamilyFacts>> = {
  4: {
    device: "vxlan.calico",
    overhead: 50,
    handlePrefix: "vxlan-tunnel-addr-",
    attributeType: "vxlanTunnelAddress",
    macSuffix: "",
  },
  6: {
    device: "vxlan-v6.calico",
    overhead: 70,
    handlePrefix: "vxlan-v6-tunnel-addr-",
    attributeType: "vxlanV6TunnelAddress",
    macSuffix: "-v6",
  },
};

/** First octet, "f" in ASCII: a MAC of local administration (IEEE 802, bit 0x02). */
const FIRST_OCTET = "66";
const OCTETS_OF_DIGEST = 5;

/** MAC of a node's VXLAN device unless its Node object names another: "f" and five octets of the SHA-1 of the name. */
export function tunnelMac(node: string, family: Family): string {
  const digest = new Bun.CryptoHasher("sha1").update(node + VXLAN[family].macSuffix).digest("hex");
  const octets = Array.from({ length: OCTETS_OF_DIGEST }, (_, index) => digest.slice(2 * index, 2 * index + 2));
  return [FIRST_OCTET, ...octets].join(":");
}
