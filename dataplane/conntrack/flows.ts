/**
 * Finds the running connections of addresses, and ends some. The original direction of a connection is judged on every packet; what flows
 * only back, such as a UDP stream, is let through while conntrack knows it, so its entry must go when its permission goes.
 */
import { type Address, bytesOf, type Family, formatAddress } from "../../lib/addresses/address.ts";
import { addressOf, unlessRefused } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { askForFlows, deleteFlow, parseFlow, type TrackedFlow } from "./message.ts";

const ENOENT = 2;

/**
 * Lists the connections that have one of these addresses at either end, before or behind translation.
 * @throws NetlinkError
 */
export function flowsOf(socket: Netlink, addresses: readonly Address[]): TrackedFlow[] {
  const wanted = new Set(addresses.map((address) => textOf(bytesOf(address))));
  const isWanted = (found: readonly Uint8Array[]) => found.some((octets) => wanted.has(textOf(octets)));
  const families = ([4, 6] as const).filter((family) => addresses.some((address) => address.family === family));
  return families.flatMap((family) => socket.dump(askForFlows(family)).flatMap((message) => parseFlow(message, isWanted) ?? []));
}

/** Lists the texts of all addresses that connections have, before and behind translation. @throws NetlinkError */
export function addressesOfFlows(socket: Netlink): Set<string> {
  const found = new Map<string, Family>();
  for (const family of [4, 6] as const) {
    const note = (octets: readonly Uint8Array[]) => {
      for (const one of octets) found.set(textOf(one), family);
      return false;
    };
    for (const message of socket.dump(askForFlows(family))) parseFlow(message, note);
  }
  return new Set([...found].map(([text, family]) => formatAddress(addressOf(family, Buffer.from(text, "latin1")))));
}

/**
 * Ends what conntrack knows of these connections; one that is over already is fine. A TCP connection whose packets are let through begins
 * again with its next packet, whoever sends it (nf_conntrack_tcp_loose).
 * @returns how many there were
 * @throws NetlinkError
 */
export function deleteFlows(socket: Netlink, flows: readonly TrackedFlow[]): number {
  return flows.filter((flow) => unlessRefused(ENOENT, () => socket.request(deleteFlow(flow))) !== undefined).length;
}

function textOf(octets: Uint8Array): string {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.length).toString("latin1");
}
