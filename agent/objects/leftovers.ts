/**
 * Objects of this node that no endpoint stands behind any more (A§6.4): an agent was killed between its last word and its job, or its
 * state was lost. They go after two looks at least a minute apart, and only while the watch has no gap.
 */

import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import type { Clock } from "../../lib/system/clock.ts";
import type { DeleteJobs } from "./delete-jobs.ts";
import type { StoredEndpoint } from "./endpoint-object.ts";
import type { ObjectSource } from "./object-sync.ts";

const LEAST_BETWEEN_LOOKS_MS = 60_000;

export interface LeftoversOptions {
  readonly node: string;
  readonly cache: ResourceCache<StoredEndpoint>;
  readonly source: Pick<ObjectSource, "endpoints">;
  readonly jobs: Pick<DeleteJobs, "add">;
  readonly clock: Clock;
  /** The cluster part of restore has ended: every endpoint that there is, is known. */
  readonly isRestored: () => boolean;
}

export class Leftovers {
  readonly #options: LeftoversOptions;
  /** When each was first seen, by uid. */
  readonly #firstSeen = new Map<string, number>();

  constructor(options: LeftoversOptions) {
    this.#options = options;
  }

  /** @returns how many are to be deleted now */
  look(): number {
    const { node, cache, jobs, clock, isRestored } = this.#options;
    const { isSynced, followedSince } = cache.state;
    const isComplete = isRestored() && isSynced && followedSince !== undefined;
    if (!isComplete) {
      this.#firstSeen.clear();
      return 0;
    }
    const leftovers = cache.list().filter((object) => object.spec.node === node && !object.isDeleting && !this.#isOwned(object));
    const uids = new Set(leftovers.map(({ uid }) => uid));
    for (const uid of this.#firstSeen.keys()) if (!uids.has(uid)) this.#firstSeen.delete(uid);
    let count = 0;
    for (const { namespace, name, uid, resourceVersion } of leftovers) {
      const since = this.#firstSeen.get(uid) ?? clock.now();
      this.#firstSeen.set(uid, since);
      if (clock.now() - since < LEAST_BETWEEN_LOOKS_MS) continue;
      jobs.add({ namespace, name, uid, resourceVersion });
      this.#firstSeen.delete(uid);
      count++;
    }
    return count;
  }

  #isOwned({ namespace, name, spec }: StoredEndpoint): boolean {
    return this.#options.source.endpoints().some(({ pod, podUID }) => pod === `${namespace}/${name}` && podUID === spec.podUID);
  }
}
