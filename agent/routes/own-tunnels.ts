/**
 * This node's ends of VXLAN tunnels: one allocated address per family, checked again when the pools change and every ten minutes.
 *
 * `disabled`, selectors and allowed uses of a pool decide about new addresses only. An address that is held is never released before its
 * successor is on the device and in the Node object: the pods' traffic goes through it.
 */

import type { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import type { FamilyAssignment } from "../../ipam-plugin/allocator/types.ts";
import { type Address, contains, type Family, formatPrefix, isSameAddress, type Prefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { selects } from "../../lib/selector/selector.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import {
  type ClusterView,
  FAMILIES,
  type OwnNode,
  type ProvenNode,
  poolOf,
  type RoutedNode,
  type RoutedPool,
  type TunnelEnd,
  VXLAN,
} from "./model.ts";

const LOOK_AGAIN_MS = 600_000;
/** Time that other nodes have to read a new tunnel address before the old one may become a pod's. */
const SETTLE_MS = 10_000;

/** Pools and blocks of the cluster; both empty where this node may have no tunnels at all. */
export type TunnelView = Pick<ClusterView, "pools" | "blocks">;

/** The address of one family, with those that the node holds besides. */
interface Choice {
  readonly address: Address;
  readonly surplus: readonly Address[];
}

interface Known extends Choice {
  readonly pools: string;
  readonly atMs: number;
}

export class OwnTunnels {
  readonly #withAllocator: <T>(work: (allocator: TunnelAllocator) => Promise<T>) => Promise<T>;
  readonly #clock: Pick<Clock, "now">;
  readonly #known = new Map<Family, Known>();
  /** Families of which the node may hold an address that no pool asks for. */
  readonly #unused = new Set<Family>();
  /** Families that this process has looked at. */
  readonly #seen = new Set<Family>();
  /** Since when the Node object names the address in use, per family with surplus addresses. */
  readonly #settled = new Map<Family, number>();

  /** @param withAllocator opens the store for one piece of work */
  constructor(withAllocator: <T>(work: (allocator: TunnelAllocator) => Promise<T>) => Promise<T>, clock: Pick<Clock, "now">) {
    this.#withAllocator = withAllocator;
    this.#clock = clock;
  }

  /** @param failed called for each family that should have a tunnel and has none; the other family goes on */
  async ends(
    node: ProvenNode,
    view: TunnelView,
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
        if (view.pools.length > 0 && !this.#seen.has(family)) this.#unused.add(family);
        this.#seen.add(family);
        const end = await this.#end(family, node, view);
        if (end !== undefined) found[family] = end;
      } catch (error) {
        failed(`IPv${family} tunnel address: ${messageOf(error)}`);
        // The pods' traffic goes on with the address that the other nodes know, or that the blocks show.
        const address = allocatedTo(node.name, family, view);
        const end = recorded ?? (address && { address });
        if (end !== undefined) found[family] = end;
      }
    }
    return found;
  }

  /**
   * Releases what no pool asks for, and what the node has held since it moved to another address. To be called when the devices are made
   * and the node's object names their addresses and no others: the next holder of one would get what is sent to this node (design,
   * invariant 3).
   * @throws DatastoreError
   */
  async giveBack(node: ProvenNode): Promise<void> {
    for (const family of this.#unused) {
      await this.#withAllocator((allocator) => allocator.releaseByHandle(tunnelHandle(node.name, family)));
      this.#unused.delete(family);
    }
    for (const [family, known] of this.#known) await this.#giveBackSurplus(family, known, node);
  }

  async #giveBackSurplus(family: Family, known: Known, { name, tunnels }: ProvenNode): Promise<void> {
    if (known.surplus.length === 0 || !isSameAddress(tunnels[family]?.address, known.address)) {
      this.#settled.delete(family);
      return;
    }
    const now = this.#clock.now();
    if (now - this.#settled.getOrInsert(family, now) < SETTLE_MS) return;
    const handle = tunnelHandle(name, family);
    const { error } = await this.#withAllocator((allocator) => allocator.releaseIps(known.surplus.map((address) => ({ address, handle }))));
    if (error !== undefined) throw error;
    this.#known.set(family, { ...known, surplus: [] });
  }

  async #end(family: Family, node: ProvenNode, view: TunnelView): Promise<TunnelEnd | undefined> {
    if (!needsTunnel(family, node, view)) {
      if (node.tunnels[family] !== undefined) this.#unused.add(family);
      this.#known.delete(family);
      return undefined;
    }
    this.#unused.delete(family);
    const pools = await poolsForTunnel(family, view.pools, node);
    const key = [pools.lasting, pools.open].map((some) => some.map(({ cidr }) => formatPrefix(cidr)).join()).join(" ");
    const recorded = node.tunnels[family]?.address;
    let known = this.#known.get(family);
    if (known?.pools !== key || !this.#isFresh(known, recorded)) {
      const choice = await this.#withAllocator((allocator) => tunnelAddress(family, node, pools, allocator));
      known = { ...choice, pools: key, atMs: this.#clock.now() };
      this.#known.set(family, known);
    }
    // Other nodes believe an address that they have read in a block: the move waits until this node has read it there.
    const isMoving = recorded !== undefined && !isSameAddress(recorded, known.address);
    const isProven = !isMoving || allocatedTo(node.name, family, view, known.address) !== undefined;
    return withMac(isProven ? known.address : recorded, family, node);
  }

  /** Says whether the known end still counts. A Node object that was made again does not name the address, which may be another's then. */
  #isFresh({ address, atMs }: Known, recorded: Address | undefined): boolean {
    return isSameAddress(recorded, address) && this.#clock.now() - atMs < LOOK_AGAIN_MS;
  }
}

/** A pool with VXLAN asks for a tunnel. One that is deleted does as long as pods have addresses of it: deletion waits for them, or did not. */
function needsTunnel(family: Family, node: ProvenNode, { pools, blocks }: TunnelView): boolean {
  if (pools.some((pool) => isTunnelled(pool, family) && !pool.isDeleting)) return true;
  if (node.tunnels[family] === undefined) return false;
  return blocks.some(({ cidr, isUsed }) => isUsed && cidr.address.family === family && isLeftOver(cidr, pools));
}

function isLeftOver(block: Prefix, pools: readonly RoutedPool[]): boolean {
  const pool = poolOf(block, pools);
  return pool === undefined || (pool.isDeleting && pool.vxlanMode !== "Never");
}

function isTunnelled({ cidr, vxlanMode }: RoutedPool, family: Family): boolean {
  return cidr.address.family === family && vxlanMode !== "Never";
}

/** Finds this node's tunnel address in the blocks: `wanted` if it is there. */
function allocatedTo(node: string, family: Family, { blocks }: TunnelView, wanted?: Address): Address | undefined {
  for (const { cidr, tunnelEnds } of blocks) {
    if (cidr.address.family !== family) continue;
    const end = tunnelEnds.find((one) => one.node === node && (wanted === undefined || isSameAddress(one.address, wanted)));
    if (end !== undefined) return end.address;
  }
  return undefined;
}

/** Others send to the MAC that the node's object names, where it names one that they can believe. */
function withMac(address: Address, family: Family, node: ProvenNode): TunnelEnd {
  const mac = node.tunnels[family]?.mac;
  return mac === undefined ? { address } : { address, mac };
}

type TunnelAllocator = Pick<Allocator, "addressesByHandle" | "assignIp" | "autoAssign" | "releaseByHandle" | "releaseIps">;

interface TunnelPools {
  /** Pools with VXLAN that are not being deleted: an address of them is kept. */
  readonly lasting: readonly RoutedPool[];
  /** Those of them that may give this node a new address. */
  readonly open: readonly RoutedPool[];
}

/** @throws TortieError `selector-syntax` */
async function poolsForTunnel(family: Family, pools: readonly RoutedPool[], { labels }: RoutedNode): Promise<TunnelPools> {
  const lasting = pools.filter((pool) => isTunnelled(pool, family) && !pool.isDeleting);
  const open: RoutedPool[] = [];
  for (const pool of lasting) {
    if (!pool.servesTunnels) continue;
    if (await selects(pool.nodeSelector, `nodeSelector of pool "${pool.name}"`, async () => labels)) open.push(pool);
  }
  return { lasting, open };
}

/**
 * Chooses the address of this node inside a tunnel, under the handle and with the attributes that Calico gives it (I§2.4, I§2.5), so that
 * Calico's tools recognise it.
 *
 * The address that the node holds already, as long as its pool lasts; else the one that its object names, if it is free; else a new one;
 * else, where no pool may give one, the one of a pool that is being deleted.
 * @throws TortieError `addresses-exhausted` when the pools have none, `pool-none` without pools; DatastoreError
 */
async function tunnelAddress(
  family: Family,
  node: ProvenNode,
  { lasting, open }: TunnelPools,
  allocator: TunnelAllocator,
): Promise<Choice> {
  const held = ((await allocator.addressesByHandle(tunnelHandle(node.name, family))) ?? []).map(({ address }) => address);
  const isNamed = (address: Address) => isSameAddress(address, node.tunnels[family]?.address);
  const chosen = (address: Address) => ({ address, surplus: held.filter((one) => !isSameAddress(one, address)) });
  const keepable = held.filter((address) => isIn(lasting, address));
  const usable = keepable.length > 0 || open.length > 0 ? keepable : held;
  const kept = usable.find(isNamed) ?? usable[0];
  if (kept !== undefined) return chosen(kept);
  return chosen((await recorded(family, node, open, allocator)) ?? (await assign(family, node.name, open, allocator)));
}

function isIn(pools: readonly RoutedPool[], address: Address): boolean {
  return pools.some(({ cidr }) => contains(cidr, address));
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
  pools: readonly RoutedPool[],
  allocator: TunnelAllocator,
): Promise<Address | undefined> {
  return claims.tunnels[family]?.prove(({ address }) => (isIn(pools, address) ? claim(address, family, name, allocator) : undefined));
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
