/**
 * Which destinations no route to another node may have, whoever says that they are there (review, S1): what belongs to this node, what
 * joins the nodes, and what no workload has. The last look before the kernel. Pure.
 */
import {
  type Address,
  contains,
  type Family,
  formatAddress,
  formatPrefix,
  maskPrefix,
  overlaps,
  type Prefix,
} from "../../../lib/addresses/address.ts";
import { NEVER_A_WORKLOAD } from "../../../lib/addresses/special.ts";
import { addressOf, type ClusterView, FAMILIES, type OwnNode } from "../model.ts";

export class Shadows {
  readonly #ownBlocks: readonly Prefix[];
  readonly #underlay: readonly Address[];
  /** Where other nodes are reached, outside of the pools, in order. */
  readonly #nodes: Readonly<Record<Family, readonly Address[]>>;

  constructor(own: OwnNode, { nodes, blocks, pools }: ClusterView) {
    this.#ownBlocks = blocks.filter(({ owner }) => owner === own.name).map(({ cidr }) => cidr);
    this.#underlay = FAMILIES.flatMap((family) => own.underlay[family]?.address.address ?? []);
    const ofFamily = (family: Family) =>
      nodes
        .flatMap((node) => (node.name === own.name ? [] : (addressOf(node, family) ?? [])))
        // A node may say that its address is one of another's pods, which must not cost those their route.
        .filter((address) => !pools.some(({ cidr }) => contains(cidr, address)))
        .sort((one, other) => (one.value < other.value ? -1 : 1));
    this.#nodes = { 4: ofFamily(4), 6: ofFamily(6) };
  }

  /**
   * @param borrowedFrom the block that the destination is a single address of: it may be this node's own
   * @returns why there must be no route to it, as the rest of a sentence
   */
  of(destination: Prefix, borrowedFrom?: Prefix): string | undefined {
    const special = NEVER_A_WORKLOAD.find((one) => overlaps(one, destination));
    if (special !== undefined) return `has addresses of ${formatPrefix(special)}`;
    const own = this.#ownBlocks.find((block) => block !== borrowedFrom && overlaps(block, destination));
    if (own !== undefined) return `overlaps with this node's own ${formatPrefix(own)}`;
    const touched = this.#underlay.find((address) => contains(destination, address)) ?? this.#nodeIn(destination);
    return touched === undefined ? undefined : `has the address ${formatAddress(touched)} of a node`;
  }

  #nodeIn(destination: Prefix): Address | undefined {
    const first = maskPrefix(destination).address.value;
    const sorted = this.#nodes[destination.address.family];
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sorted[middle]?.value ?? 0n) < first) low = middle + 1;
      else high = middle;
    }
    const next = sorted[low];
    return next !== undefined && contains(destination, next) ? next : undefined;
  }
}
