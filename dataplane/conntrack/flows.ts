/**
 * Finds the running connections of addresses, and ends some. The original direction of a connection is judged on every packet; what flows
 * only back, such as a UDP stream, is let through while conntrack knows it, so its entry must go when its permission goes.
 */
import { type Address, bytesOf, formatAddress } from "../../lib/addresses/address.ts";
import { dumpAside } from "../netlink/dump-aside.ts";
import { addressOf, unlessMissing } from "../netlink/message.ts";
import { NETLINK_NETFILTER, type Netlink } from "../netlink/socket.ts";
import { askForFlows, deleteFlow, parseFlow, type TrackedFlow } from "./message.ts";

/**
 * Lists the connections that have one of these addresses at either end, before or behind translation. The kernel walks through its whole
 * table for it, on another thread.
 * @throws as `dumpAside`
 */
export async function flowsOf(addresses: readonly Address[]): Promise<TrackedFlow[]> {
  const wanted = new Set(addresses.map((address) => textOf(bytesOf(address))));
  const isWanted = (found: readonly Uint8Array[]) => found.some((octets) => wanted.has(textOf(octets)));
  const result: TrackedFlow[] = [];
  for await (const messages of allFlows()) {
    for (const message of messages) {
      const flow = parseFlow(message, isWanted);
      if (flow !== undefined) result.push(flow);
    }
  }
  return result;
}

/** Lists the texts of all addresses that connections have, before and behind translation. @throws as `dumpAside` */
export async function addressesOfFlows(): Promise<Set<string>> {
  const found = new Set<string>();
  const note = (octets: readonly Uint8Array[]) => {
    for (const one of octets) found.add(textOf(one));
    return false;
  };
  for await (const messages of allFlows()) for (const message of messages) parseFlow(message, note);
  const familyOf = (text: string) => (text.length === 4 ? 4 : 6);
  return new Set([...found].map((text) => formatAddress(addressOf(familyOf(text), Buffer.from(text, "latin1")))));
}

/**
 * Ends what conntrack knows of these connections; one that is over already is fine. A TCP connection whose packets are let through begins
 * again with its next packet, whoever sends it (nf_conntrack_tcp_loose).
 * @returns how many there were
 * @throws NetlinkError
 */
export function deleteFlows(socket: Netlink, flows: readonly TrackedFlow[]): number {
  return flows.filter((flow) => unlessMissing(() => socket.request(deleteFlow(flow))) !== undefined).length;
}

function allFlows() {
  return dumpAside(NETLINK_NETFILTER, askForFlows());
}

function textOf(octets: Uint8Array): string {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.length).toString("latin1");
}
