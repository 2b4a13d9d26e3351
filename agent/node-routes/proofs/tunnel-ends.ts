/**
 * Which tunnel addresses and MACs that nodes name for themselves can be believed (review, S1). A false one would lead another node's
 * packets, or those to any address of the world, to the node that names it. Pure.
 */
import { type Address, formatAddress } from "../../../lib/addresses/address.ts";
import { isAssignableMac } from "../../../lib/workload/mac.ts";
import { type ByFamily, FAMILIES, type RoutedBlock, type RoutedNode, type TunnelEnd } from "../model.ts";
import { tunnelMac } from "../vxlan-facts.ts";

/** Whether the address is this node's to use inside a tunnel. */
type IsOf = (node: string, address: Address) => boolean;

export interface ProvenEnds {
  /** By name of the node. */
  readonly ends: ReadonlyMap<string, ByFamily<TunnelEnd>>;
  readonly refused: readonly string[];
}

/**
 * @param isOf the proof of an address. A MAC that is not the one that follows from the node's name holds as long as no other node has it,
 *   by name or by its own word; otherwise the one that follows from the name counts, as if the node had named none
 */
export function proveTunnelEnds(nodes: readonly RoutedNode[], isOf: IsOf): ProvenEnds {
  const ends = new Map<string, Partial<Record<4 | 6, TunnelEnd>>>();
  const refused: string[] = [];
  for (const family of FAMILIES) {
    const bearers = bearersOfMacs(nodes, family);
    for (const { name, claims } of nodes) {
      const proven = claims.tunnels[family]?.prove(({ address, mac }): TunnelEnd | undefined => {
        if (!isOf(name, address)) {
          refused.push(`node ${name} names ${formatAddress(address)} as its end of the tunnel, and nothing says that it is`);
          return undefined;
        }
        if (mac === undefined || mac === tunnelMac(name, family)) return { address };
        if (isAssignableMac(mac) && bearers.get(mac)?.size === 1) return { address, mac };
        refused.push(`node ${name} names the MAC ${mac}, which is another node's or no interface's`);
        return { address };
      });
      if (proven !== undefined) ends.set(name, { ...ends.get(name), [family]: proven });
    }
  }
  return { ends, refused };
}

/** In blocks mode the store proves it: an address is allocated to one node, as its end of a tunnel. */
export function isAllocatedBy(blocks: readonly RoutedBlock[]): IsOf {
  const users = new Map(blocks.flatMap(({ tunnelEnds }) => tunnelEnds.map(({ address, node }) => [formatAddress(address), node])));
  return (node, address) => users.get(formatAddress(address)) === node;
}

function bearersOfMacs(nodes: readonly RoutedNode[], family: 4 | 6): ReadonlyMap<string, ReadonlySet<string>> {
  const bearers = new Map<string, Set<string>>();
  const note = (mac: string, name: string) => bearers.set(mac, (bearers.get(mac) ?? new Set()).add(name));
  for (const { name, claims } of nodes) {
    note(tunnelMac(name, family), name);
    claims.tunnels[family]?.prove(({ mac }) => mac !== undefined && note(mac, name));
  }
  return bearers;
}
