/** Reads what other programs have in nftables, as far as it decides about the packets of pods. Changes nothing. */
import type { Message } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { ask, type ListedChain, parseChain, type TableFamily } from "./message.ts";

const FAMILIES = ["inet", "ip", "ip6"] as const satisfies readonly TableFamily[];

/** include/uapi/linux/netfilter.h */
const NF_INET_FORWARD = 2;

export interface FoundChain extends Omit<ListedChain, "hook"> {
  readonly family: TableFamily;
  /** Forwarded packets come to it by themselves. */
  readonly isForward: boolean;
  /** What none of its rules decides about is dropped. */
  readonly drops: boolean;
}

/** Lists the chains of every table of IP packets. @throws NetlinkError */
export function listChains(netfilter: Netlink): readonly FoundChain[] {
  return FAMILIES.flatMap((family) => netfilter.dump(ask("chain", family)).map((message) => chainIn(message, family)));
}

function chainIn(message: Message, family: TableFamily): FoundChain {
  const { table, name, hook } = parseChain(message);
  return { family, table, name, isForward: hook?.hook === NF_INET_FORWARD, drops: hook?.accepts === false };
}

/** Tells whether any rule of a table compares something with this text, such as the beginning of a link's name. @throws NetlinkError */
export function mentions(netfilter: Netlink, { family, table }: Pick<FoundChain, "family" | "table">, text: string): boolean {
  return netfilter.dump(ask("rule", family, table)).some(({ payload }) => Buffer.from(payload).includes(text));
}
