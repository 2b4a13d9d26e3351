/** An agent's allocator on a cluster in memory: what it remembers of blocks, and the writes that its operations share (A§11.7). */

import { sharedServices } from "../../agent/addresses/blocks-parts.ts";
import { cachedDatastore } from "../../agent/addresses/cached-datastore.ts";
import { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import type { AutoAssignRequest, AutoAssignResult } from "../../ipam-plugin/allocator/types.ts";
import { Cluster, type ClusterSetup, host } from "./cluster.ts";

export const NODE = "node-a";

export class ClusterAgent {
  readonly cluster: Cluster;
  readonly allocator: Allocator;
  /** Of each write of a block: how it ended, and of how many operations it was. */
  readonly writes: { readonly outcome: string; readonly parts: number }[] = [];

  constructor(cluster: Cluster) {
    this.cluster = cluster;
    let ns = 1_787_405_600_000_000_000n;
    this.allocator = new Allocator({
      datastore: cachedDatastore(cluster.observed),
      clock: { nowMs: () => cluster.nowMs, nowNs: () => ns++ },
      random: () => 0.5,
      sleep: async () => {},
      log: (message) => cluster.logged.push(message),
      ...sharedServices({ onWrite: (outcome, parts) => this.writes.push({ outcome, parts }) }),
    });
  }

  static async create(setup: ClusterSetup): Promise<ClusterAgent> {
    return new ClusterAgent(await Cluster.create(setup));
  }

  assign(handle: string, changes: Partial<AutoAssignRequest> = {}): Promise<AutoAssignResult> {
    const attributes = { node: NODE, handle };
    return this.allocator.autoAssign(
      { count4: 1, count6: 0, handle, attributes, owner: host(NODE), use: "Workload", ...changes },
      { mayBeOld: true },
    );
  }

  release(handle: string): ReturnType<Allocator["releaseByHandle"]> {
    return this.allocator.releaseByHandle(handle);
  }

  /** Handle of each address of the block that has one, in order. */
  async holders(cidr: string): Promise<readonly string[]> {
    const block = await this.cluster.block(cidr);
    return block?.allocations.flatMap((index) => (index === null ? [] : (block.attributes[index]?.handleId ?? []))) ?? [];
  }
}
