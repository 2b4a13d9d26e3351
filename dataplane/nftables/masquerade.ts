/** The content of our table: traffic from the pools that asks for it, to anywhere but the pools, leaves with the node's address. */
import type { Family, Prefix } from "../../lib/addresses/address.ts";
import { bytes, nest, text, u32be } from "../netlink/attribute.ts";
import type { Request } from "../netlink/socket.ts";
import { edgesOf } from "./intervals.ts";
import { type Expression, newElements, newIntervalSet, newNatChain, newRule, newTable, type TableFamily } from "./message.ts";

export const TABLE = "tortie";
const CHAIN = "postrouting";
/** include/uapi/linux/netfilter.h, netfilter_ipv4.h (NF_IP_PRI_NAT_SRC). */
const NF_INET_POST_ROUTING = 4;
const PRIORITY_SRCNAT = 100;
/** Elements of one message: an attribute ends at 64 KiB, and an IPv6 element takes 44 bytes. */
const ELEMENTS_PER_MESSAGE = 1000;

const REGISTER = 1;
const NFT_META_NFPROTO = 15;
const NFT_CMP_EQ = 0;
const NFT_PAYLOAD_NETWORK_HEADER = 1;
const NFT_LOOKUP_F_INV = 1;

/** Where the addresses are in each family's header, and the numbers of the family here and there. */
const FAMILIES = {
  4: { nfproto: 2, keyType: 7, length: 4, source: 12, destination: 16 },
  6: { nfproto: 10, keyType: 8, length: 16, source: 8, destination: 24 },
} as const;

export interface Masquerading {
  /** Pools whose traffic is masqueraded. */
  readonly outgoing: readonly Prefix[];
  /** Every pool; traffic to them keeps its source. */
  readonly pools: readonly Prefix[];
}

/** The requests that create the table and all that is in it, for the address families that such a table can have. */
export function tableRequests(table: TableFamily, { outgoing, pools }: Masquerading, userData: Uint8Array): Request[] {
  const families = ([4, 6] as const).filter(
    (family) => (table === "inet" || (table === "ip") === (family === 4)) && outgoing.some((prefix) => prefix.address.family === family),
  );
  return [
    newTable(table, TABLE, userData),
    newNatChain(table, TABLE, CHAIN, NF_INET_POST_ROUTING, PRIORITY_SRCNAT),
    ...families.flatMap((family, index) => [
      ...setRequests(table, family, `outgoing${family}`, 2 * index + 1, outgoing),
      ...setRequests(table, family, `pools${family}`, 2 * index + 2, pools),
      newRule(table, TABLE, CHAIN, [
        ...(table === "inet" ? isOfFamily(family) : []),
        ...isIn(family, FAMILIES[family].source, `outgoing${family}`, 2 * index + 1, true),
        ...isIn(family, FAMILIES[family].destination, `pools${family}`, 2 * index + 2, false),
        { name: "masq", parameters: [] },
      ]),
    ]),
  ];
}

function setRequests(table: TableFamily, family: Family, name: string, id: number, prefixes: readonly Prefix[]): Request[] {
  const edges = edgesOf(family, prefixes);
  const parts = Array.from({ length: Math.ceil(edges.length / ELEMENTS_PER_MESSAGE) }, (_, part) =>
    edges.slice(part * ELEMENTS_PER_MESSAGE, (part + 1) * ELEMENTS_PER_MESSAGE),
  );
  const { keyType, length } = FAMILIES[family];
  return [newIntervalSet(table, TABLE, name, keyType, length, id), ...parts.map((part) => newElements(table, TABLE, name, part))];
}

/** meta nfproto ipv4 */
function isOfFamily(family: Family): Expression[] {
  return [
    { name: "meta", parameters: [u32be(2, NFT_META_NFPROTO), u32be(1, REGISTER)] },
    { name: "cmp", parameters: [u32be(1, REGISTER), u32be(2, NFT_CMP_EQ), nest(3, [bytes(1, Uint8Array.of(FAMILIES[family].nfproto))])] },
  ];
}

/** ip saddr @set, or ip daddr != @set */
function isIn(family: Family, offset: number, set: string, id: number, isWanted: boolean): Expression[] {
  const { length } = FAMILIES[family];
  const inverted = isWanted ? [] : [u32be(5, NFT_LOOKUP_F_INV)];
  return [
    { name: "payload", parameters: [u32be(1, REGISTER), u32be(2, NFT_PAYLOAD_NETWORK_HEADER), u32be(3, offset), u32be(4, length)] },
    { name: "lookup", parameters: [text(1, set), u32be(2, REGISTER), u32be(4, id), ...inverted] },
  ];
}
