/** Reads what other programs have in nftables, as far as it decides about the packets of pods. Changes nothing. */
import { attributeMap, type Message, readText } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { ask, NFGENMSG_BYTES, type TableFamily } from "./message.ts";

const FAMILIES = ["inet", "ip", "ip6"] as const satisfies readonly TableFamily[];

/** include/uapi/linux/netfilter/nf_tables.h */
const NFTA_CHAIN_TABLE = 1;
const NFTA_CHAIN_NAME = 3;
const NFTA_CHAIN_HOOK = 4;
const NFTA_CHAIN_POLICY = 5;
const NFTA_HOOK_HOOKNUM = 1;
/** include/uapi/linux/netfilter.h */
const NF_INET_FORWARD = 2;
const NF_DROP = 0;

export interface FoundChain {
  readonly family: TableFamily;
  readonly table: string;
  readonly name: string;
  /** Forwarded packets come to it by themselves. */
  readonly isForward: boolean;
  /** What none of its rules decides about is dropped. */
  readonly drops: boolean;
}

/** Lists the chains of every table of IP packets. @throws NetlinkError */
export function listChains(netfilter: Netlink): readonly FoundChain[] {
  return FAMILIES.flatMap((family) => netfilter.dump(ask("chain", family)).map((message) => chainIn(message, family)));
}

function chainIn({ payload }: Message, family: TableFamily): FoundChain {
  const attributes = attributeMap(payload.subarray(NFGENMSG_BYTES));
  const hook = attributes.get(NFTA_CHAIN_HOOK);
  return {
    family,
    table: readText(attributes.get(NFTA_CHAIN_TABLE)) ?? "",
    name: readText(attributes.get(NFTA_CHAIN_NAME)) ?? "",
    isForward: hook !== undefined && numberOf(attributeMap(hook).get(NFTA_HOOK_HOOKNUM)) === NF_INET_FORWARD,
    drops: hook !== undefined && numberOf(attributes.get(NFTA_CHAIN_POLICY)) === NF_DROP,
  };
}

/** Tells whether any rule of a table compares something with this text, such as the beginning of a link's name. @throws NetlinkError */
export function mentions(netfilter: Netlink, { family, table }: Pick<FoundChain, "family" | "table">, text: string): boolean {
  return netfilter.dump(ask("rule", family, table)).some(({ payload }) => Buffer.from(payload).includes(text));
}

/** Numbers of nftables are big-endian. */
function numberOf(bytes: Uint8Array | undefined): number | undefined {
  return bytes === undefined ? undefined : new DataView(bytes.buffer, bytes.byteOffset, bytes.length).getUint32(0, false);
}
