/**
 * Which destinations no route to another node may have, whoever says that they are there (review, S1): what belongs to this node, what
 * joins the nodes, and what no workload has. The last look before the kernel. Pure.
 */
import { formatAddress, formatPrefix, hostPrefix, overlaps, type Prefix } from "../../../lib/addresses/address.ts";
import { NEVER_A_WORKLOAD } from "../../../lib/addresses/special.ts";
import { addressOf, type ClusterView, FAMILIES, type OwnNode } from "../model.ts";
import { DisjointPrefixes } from "./disjoint.ts";

export class Shadows {
  readonly #ownBlocks = new DisjointPrefixes<undefined>();
  /** Where this node is reached, and where others are outside of the pools. */
  readonly #addresses = new DisjointPrefixes<undefined>();

  constructor(own: OwnNode, { nodes, blocks, pools }: ClusterView) {
    for (const { cidr, owner } of blocks) if (owner === own.name) this.#ownBlocks.add(cidr, undefined);
    const ofPods = new DisjointPrefixes<undefined>();
    for (const { cidr } of pools) ofPods.add(cidr, undefined);
    for (const family of FAMILIES) {
      const here = own.underlay[family]?.address.address;
      if (here !== undefined) this.#addresses.add(hostPrefix(here), undefined);
      for (const node of nodes) {
        const there = node.name === own.name ? undefined : addressOf(node, family);
        // A node may say that its address is one of another's pods, which must not cost those their route.
        if (there === undefined || ofPods.overlapping(hostPrefix(there)) !== undefined) continue;
        this.#addresses.add(hostPrefix(there), undefined);
      }
    }
  }

  /**
   * @param borrowedFrom the block that the destination is a single address of: it may be this node's own
   * @returns why there must be no route to it, as the rest of a sentence
   */
  of(destination: Prefix, borrowedFrom?: Prefix): string | undefined {
    const special = NEVER_A_WORKLOAD.find((one) => overlaps(one, destination));
    if (special !== undefined) return `has addresses of ${formatPrefix(special)}`;
    const own = this.#ownBlocks.overlapping(destination)?.prefix;
    if (own !== undefined && own !== borrowedFrom) return `overlaps with this node's own ${formatPrefix(own)}`;
    const touched = this.#addresses.overlapping(destination)?.prefix;
    return touched && `has the address ${formatAddress(touched.address)} of a node`;
  }
}
