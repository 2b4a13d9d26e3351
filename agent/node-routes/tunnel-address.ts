/**
 * The address of this node inside a tunnel: one address of a pool that may serve tunnels and has VXLAN, under the handle and with the
 * attributes that Calico gives it (I§2.4, I§2.5), so that Calico's tools recognise it.
 */
import type { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import type { FamilyAssignment } from "../../ipam-plugin/allocator/types.ts";
import { type Address, contains, type Family, formatPrefix } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { selects } from "../../lib/selector/selector.ts";
import type { RoutedNode, RoutedPool } from "./model.ts";
import { VXLAN } from "./vxlan-facts.ts";

export type TunnelAllocator = Pick<Allocator, "addressesByHandle" | "assignIp" | "autoAssign" | "releaseByHandle">;

/** Pools of one family whose packets may go through VXLAN: there is a device as long as there is one. */
export function tunnelledPools(pools: readonly RoutedPool[], family: Family): readonly RoutedPool[] {
  return pools.filter(({ cidr, vxlanMode }) => cidr.address.family === family && vxlanMode !== "Never");
}

/** Those of them that may give this node an address. @throws TortieError `selector-syntax` */
export async function poolsForTunnel(pools: readonly RoutedPool[], { labels }: RoutedNode): Promise<readonly RoutedPool[]> {
  const found: RoutedPool[] = [];
  for (const pool of pools) {
    if (!pool.servesTunnels) continue;
    if (await selects(pool.nodeSelector, `nodeSelector of pool "${pool.name}"`, async () => labels)) found.push(pool);
  }
  return found;
}

/**
 * The address that the node holds already, as long as it is in one of the pools; else the one that its object names, if it is free; else
 * a new one.
 * @throws TortieError `addresses-exhausted` when the pools have none, `pool-none` without pools; DatastoreError
 */
export async function tunnelAddress(
  family: Family,
  node: RoutedNode,
  pools: readonly RoutedPool[],
  allocator: TunnelAllocator,
): Promise<Address> {
  const handle = tunnelHandle(node.name, family);
  const held = ((await allocator.addressesByHandle(handle)) ?? []).map(({ address }) => address);
  const isUsable = (address: Address) => pools.some(({ cidr }) => contains(cidr, address));
  const kept = held.find(isUsable);
  if (kept !== undefined && held.length === 1) return kept;
  // Of pools that are gone, or more than one.
  if (held.length > 0) await allocator.releaseByHandle(handle);
  const again = kept === undefined ? recorded(family, node, isUsable, allocator) : claim(kept, family, node.name, allocator);
  return (await again) ?? assign(family, node.name, pools, allocator);
}

/** Gives back what the node holds for its tunnel. @throws DatastoreError */
export async function releaseTunnelAddress(family: Family, node: string, allocator: TunnelAllocator): Promise<void> {
  await allocator.releaseByHandle(tunnelHandle(node, family));
}

function tunnelHandle(node: string, family: Family): string {
  return VXLAN[family].handlePrefix + node;
}

function ownerOf(node: string, family: Family) {
  return {
    handle: tunnelHandle(node, family),
    attributes: { node, type: VXLAN[family].attributeType },
    owner: { type: "host", name: node },
    use: "Tunnel",
  } as const;
}

/** What the node's object names was this node's, or is anybody's word: the allocation is the proof. */
async function recorded(
  family: Family,
  { name, claims }: RoutedNode,
  isUsable: (address: Address) => boolean,
  allocator: TunnelAllocator,
): Promise<Address | undefined> {
  return claims.tunnels[family]?.prove(({ address }) => (isUsable(address) ? claim(address, family, name, allocator) : undefined));
}

/** @returns `undefined` when it cannot be had */
async function claim(address: Address, family: Family, node: string, allocator: TunnelAllocator): Promise<Address | undefined> {
  try {
    await allocator.assignIp({ ...ownerOf(node, family), address });
    return address;
  } catch (error) {
    if (error instanceof TortieError) return undefined;
    throw error;
  }
}

async function assign(family: Family, node: string, pools: readonly RoutedPool[], allocator: TunnelAllocator): Promise<Address> {
  if (pools.length === 0) throw new TortieError("pool-none", `no pool with VXLAN may give node ${node} a tunnel address`);
  const cidrs = pools.map(({ cidr }) => formatPrefix(cidr));
  const counts = family === 4 ? { count4: 1, count6: 0, ipv4Pools: cidrs } : { count4: 0, count6: 1, ipv6Pools: cidrs };
  const result = await allocator.autoAssign({ ...ownerOf(node, family), ...counts });
  const given: FamilyAssignment | undefined = family === 4 ? result.ipv4 : result.ipv6;
  if (given?.error !== undefined) throw given.error;
  const [first] = given?.addresses ?? [];
  if (first !== undefined) return first.prefix.address;
  throw new TortieError(
    "addresses-exhausted",
    `no IPv${family} tunnel address in ${cidrs.join(", ")}: ${given?.messages.join("; ") ?? ""}`,
  );
}
