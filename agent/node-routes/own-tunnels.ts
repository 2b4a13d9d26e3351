/** This node's ends of the tunnels that its pools ask for: allocated once, looked at again when the pools change and every ten minutes. */
import { type Family, formatAddress, formatPrefix } from "../../lib/addresses/address.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { Clock } from "../../lib/system/clock.ts";
import { FAMILIES, type OwnNode, type ProvenNode, type RoutedPool, type TunnelEnd } from "./model.ts";
import { poolsForTunnel, releaseTunnelAddress, type TunnelAllocator, tunnelAddress, tunnelledPools } from "./tunnel-address.ts";

const LOOK_AGAIN_MS = 600_000;

interface Known {
  readonly end: TunnelEnd;
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

  /** @param failed told of each family that has none although it should; the other one is not held up by it */
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
      await this.#withAllocator((allocator) => releaseTunnelAddress(family, node, allocator));
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
    if (known?.pools === key && this.#isFresh(known, node.tunnels[family])) return withMac(known.end, family, node);
    const address = await this.#withAllocator((allocator) => tunnelAddress(family, node, usable, allocator));
    this.#known.set(family, { end: { address }, pools: key, atMs: this.#clock.now() });
    return withMac({ address }, family, node);
  }

  /** A Node object that was made anew does not name the address: it may have been given back with the old one, and be another's. */
  #isFresh({ end, atMs }: Known, recorded: TunnelEnd | undefined): boolean {
    const isRecorded = recorded !== undefined && formatAddress(recorded.address) === formatAddress(end.address);
    return isRecorded && this.#clock.now() - atMs < LOOK_AGAIN_MS;
  }
}

/** Others send to the MAC that the node's object names, where it names one that they can believe. */
function withMac({ address }: TunnelEnd, family: Family, node: ProvenNode): TunnelEnd {
  const mac = node.tunnels[family]?.mac;
  return mac === undefined ? { address } : { address, mac };
}
