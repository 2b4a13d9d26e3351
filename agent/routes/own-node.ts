/**
 * Finds out where other nodes reach this one: its own address, from the Node object and checked against the kernel, and its ends of the
 * tunnels that its pools ask for, allocated once and looked at again when the pools change and every ten minutes.
 */

import type { HostLinkAddress } from "../../dataplane/linux/host-facts.ts";
import type { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import type { FamilyAssignment } from "../../ipam-plugin/allocator/types.ts";
import { type Address, contains, type Family, formatAddress, formatPrefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { selects } from "../../lib/selector/selector.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { byFamily, FAMILIES, type OwnNode, type ProvenNode, type RoutedNode, type RoutedPool, type TunnelEnd, VXLAN } from "./model.ts";

const LOOK_AGAIN_MS = 600_000;

interface Known {
  readonly address: Address;
  readonly pools: string;
  readonly atMs: number;
}

export class OwnTunnels {
  readonly #withAllocator: <T>(work: (allocator: TunnelAllocator) => Promise<T>) => Promise<T>;
  readonly #clock: Pick<Clock, "now">;
  readonly #known = new Map<Family, Known>();
  /** Families of which the node may hold an address that no pool asks for. */
  readonly #unused = new Set<Family>();
  /** Families that have been looked at by this process. */
  readonly #seen = new Set<Family>();

  /** @param withAllocator opens the store for one piece of work */
  constructor(withAllocator: <T>(work: (allocator: TunnelAllocator) => Promise<T>) => Promise<T>, clock: Pick<Clock, "now">) {
    this.#withAllocator = withAllocator;
    this.#clock = clock;
  }

  /** @param failed called for each family that should have a tunnel and has none; the other family goes on */
  async ends(
    node: ProvenNode,
    pools: readonly RoutedPool[],
    underlay: OwnNode["underlay"],
    failed: (message: string) => void,
  ): Promise<OwnNode["tunnels"]> {
    const found: Partial<Record<Family, TunnelEnd>> = {};
    for (const family of FAMILIES) {
      const recorded = node.tunnels[family];
      // A node whose interface is away has its tunnel again when that is back.
      if (underlay[family] === undefined) {
        if (recorded !== undefined) found[family] = recorded;
        continue;
      }
      try {
        // An earlier process may have ended before it gave its address back. Without any pool this node may have no tunnels at all.
        if (pools.length > 0 && !this.#seen.has(family)) this.#unused.add(family);
        this.#seen.add(family);
        const end = await this.#end(family, node, tunnelledPools(pools, family));
        if (end !== undefined) found[family] = end;
      } catch (error) {
        failed(`IPv${family} tunnel address: ${messageOf(error)}`);
        // The pods' traffic goes on with the address that the other nodes know.
        if (recorded !== undefined) found[family] = recorded;
      }
    }
    return found;
  }

  /**
   * Releases what no pool asks for. To be called when the devices are gone and the node's object does not name the addresses any more: the
   * next holder of one would get what is sent to this node (design, invariant 3).
   * @throws DatastoreError
   */
  async giveBack(node: string): Promise<void> {
    for (const family of this.#unused) {
      await this.#withAllocator((allocator) => allocator.releaseByHandle(tunnelHandle(node, family)));
      this.#unused.delete(family);
    }
  }

  async #end(family: Family, node: ProvenNode, pools: readonly RoutedPool[]): Promise<TunnelEnd | undefined> {
    if (pools.length === 0) {
      if (node.tunnels[family] !== undefined) this.#unused.add(family);
      this.#known.delete(family);
      return undefined;
    }
    this.#unused.delete(family);
    const usable = await poolsForTunnel(pools, node);
    const key = usable.map(({ cidr }) => formatPrefix(cidr)).join();
    const known = this.#known.get(family);
    if (known?.pools === key && this.#isFresh(known, node.tunnels[family])) return withMac(known.address, family, node);
    const address = await this.#withAllocator((allocator) => tunnelAddress(family, node, usable, allocator));
    this.#known.set(family, { address, pools: key, atMs: this.#clock.now() });
    return withMac(address, family, node);
  }

  /** Says whether the known end still counts. A Node object that was made again does not name the address, which may be another's then. */
  #isFresh({ address, atMs }: Known, recorded: TunnelEnd | undefined): boolean {
    const isRecorded = recorded !== undefined && formatAddress(recorded.address) === formatAddress(address);
    return isRecorded && this.#clock.now() - atMs < LOOK_AGAIN_MS;
  }
}

/** Others send to the MAC that the node's object names, where it names one that they can believe. */
function withMac(address: Address, family: Family, node: ProvenNode): TunnelEnd {
  const mac = node.tunnels[family]?.mac;
  return mac === undefined ? { address } : { address, mac };
}

type TunnelAllocator = Pick<Allocator, "addressesByHandle" | "assignIp" | "autoAssign" | "releaseByHandle">;

/** Pools of one family whose packets may go through VXLAN: there is a device as long as there is one. */
function tunnelledPools(pools: readonly RoutedPool[], family: Family): readonly RoutedPool[] {
  return pools.filter(({ cidr, vxlanMode }) => cidr.address.family === family && vxlanMode !== "Never");
}

/** Picks the pools that may give this node an address. @throws TortieError `selector-syntax` */
async function poolsForTunnel(pools: readonly RoutedPool[], { labels }: RoutedNode): Promise<readonly RoutedPool[]> {
  const found: RoutedPool[] = [];
  for (const pool of pools) {
    if (!pool.servesTunnels) continue;
    if (await selects(pool.nodeSelector, `nodeSelector of pool "${pool.name}"`, async () => labels)) found.push(pool);
  }
  return found;
}

/**
 * Takes the address of this node inside a tunnel: one address of a pool that may serve tunnels and has VXLAN, under the handle and with the
 * attributes that Calico gives it (I§2.4, I§2.5), so that Calico's tools recognise it.
 *
 * The address that the node holds already, as long as it is in one of the pools; else the one that its object names, if it is free; else
 * a new one.
 * @throws TortieError `addresses-exhausted` when the pools have none, `pool-none` without pools; DatastoreError
 */
async function tunnelAddress(family: Family, node: RoutedNode, pools: readonly RoutedPool[], allocator: TunnelAllocator): Promise<Address> {
  const handle = tunnelHandle(node.name, family);
  const held = ((await allocator.addressesByHandle(handle)) ?? []).map(({ address }) => address);
  const isUsable = (address: Address) => pools.some(({ cidr }) => contains(cidr, address));
  const kept = held.find(isUsable);
  if (kept !== undefined && held.length === 1) return kept;
  // Releases addresses of pools that are gone, or more than one.
  if (held.length > 0) await allocator.releaseByHandle(handle);
  const again = kept === undefined ? recorded(family, node, isUsable, allocator) : claim(kept, family, node.name, allocator);
  return (await again) ?? assign(family, node.name, pools, allocator);
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

/** Proves the address that the node's object names by its allocation: the object alone is anybody's word. */
async function recorded(
  family: Family,
  { name, claims }: RoutedNode,
  isUsable: (address: Address) => boolean,
  allocator: TunnelAllocator,
): Promise<Address | undefined> {
  return claims.tunnels[family]?.prove(({ address }) => (isUsable(address) ? claim(address, family, name, allocator) : undefined));
}

/** @returns `undefined` when somebody else has it */
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

type HostAddress = Pick<HostLinkAddress, "address" | "length" | "mtu" | "isUp">;

/**
 * Finds the address of those in the Node object that a link of this host has. The recorded prefix length counts: an administrator
 * may have made the subnet larger or smaller than the link's.
 */
export function underlayOf({ recorded, internal }: RoutedNode, host: readonly HostAddress[]): OwnNode["underlay"] {
  return byFamily((family) => {
    const [first, second] = [recorded[family], internal[family]];
    const [known, link] = [linkWith(first?.address, host), linkWith(second, host)];
    if (first !== undefined && known !== undefined) return { address: first, mtu: known.mtu };
    return second === undefined || link === undefined ? undefined : { address: { address: second, length: link.length }, mtu: link.mtu };
  });
}

function linkWith(address: Address | undefined, host: readonly HostAddress[]): HostAddress | undefined {
  if (address === undefined) return undefined;
  return host.find((one) => one.isUp && formatAddress(one.address) === formatAddress(address));
}

const ADDRESS: Readonly<Record<Family, string>> = {
  4: "projectcalico.org/IPv4Address",
  6: "projectcalico.org/IPv6Address",
};
const TUNNEL_ADDRESS: Readonly<Record<Family, string>> = {
  4: "projectcalico.org/IPv4VXLANTunnelAddr",
  6: "projectcalico.org/IPv6VXLANTunnelAddr",
};
const TUNNEL_MAC: Readonly<Record<Family, string>> = {
  4: "projectcalico.org/VXLANTunnelMACAddr",
  6: "projectcalico.org/VXLANTunnelMACAddrV6",
};
/** Where Calico keeps on a Node object what other nodes need to reach it. */
export const NODE_ANNOTATIONS = { address: ADDRESS, tunnelAddress: TUNNEL_ADDRESS, tunnelMac: TUNNEL_MAC } as const;

/**
 * Returns what to merge into the Node object's annotations so that every other node, whichever agent it runs, finds this one. Takes back a
 * tunnel that is not there any more, but never an address, since others than us may rely on it.
 * @returns `undefined` when they say it already
 */
export function annotationsFor(
  node: RoutedNode,
  { underlay, tunnels }: Pick<OwnNode, "underlay" | "tunnels">,
): Readonly<Record<string, string | null>> | undefined {
  const patch: Record<string, string | null> = {};
  for (const family of FAMILIES) {
    const [recorded, here, end] = [node.recorded[family], underlay[family]?.address, tunnels[family]?.address];
    const isRecorded = recorded !== undefined && here !== undefined && formatPrefix(recorded) === formatPrefix(here);
    if (here !== undefined && !isRecorded) patch[ADDRESS[family]] = formatPrefix(here);
    const wanted = end && formatAddress(end);
    // Corrects what differs from this node's end, whether the claim holds or not.
    const isShown = node.claims.tunnels[family]?.prove(({ address }) => formatAddress(address) === wanted);
    if (isShown !== true && (wanted !== undefined || isShown !== undefined)) patch[TUNNEL_ADDRESS[family]] = wanted ?? null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}
