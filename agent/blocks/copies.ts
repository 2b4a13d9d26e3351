/** Copies of the store's objects that watches keep, as far as an ADD reads them (A§11.7). */
import type { BlockOwner, Versioned } from "../../lib/datastore/datastore.ts";
import type { Watched } from "../../lib/datastore/kubernetes/selections.ts";
import type {
  BlockAffinity,
  ClusterInformation,
  IPPool,
  IPReservation,
  IpamConfiguration,
  LabelledObject,
} from "../../lib/datastore/resources.ts";
import type { CacheState, ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";

export type Copy<T> = Pick<ResourceCache<Watched<T>>, "isUsable" | "get" | "list">;

/** A copy that says whether changes are being heard of at this moment. */
export type FollowedCopy<T> = Copy<T> & { readonly state: Pick<CacheState, "followedSince"> };

/** A kind without a copy is read from the store. */
export interface Copies {
  readonly pools?: Copy<IPPool>;
  readonly reservations?: Copy<IPReservation>;
  readonly configuration?: Copy<IpamConfiguration>;
  readonly clusterInformation?: FollowedCopy<ClusterInformation>;
  readonly nodes?: Copy<LabelledObject>;
  readonly namespaces?: Copy<LabelledObject>;
  /** Of one owner. */
  readonly affinities?: { readonly owner: BlockOwner; readonly copy: Copy<BlockAffinity> };
}

/** `undefined`: not there, or not known. */
export function fromCopy<T>(copy: Copy<T> | undefined, name: string): Versioned<T> | undefined {
  const found = copy?.isUsable === true ? copy.get(name) : undefined;
  return found?.isMarked === false ? found.stored : undefined;
}

/** In the order of their names; `undefined`: the store must be asked. */
export function allFromCopy<T>(copy: Copy<T> | undefined): readonly Versioned<T>[] | undefined {
  if (copy?.isUsable !== true) return undefined;
  return copy
    .list()
    .filter(({ isMarked }) => !isMarked)
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ stored }) => stored);
}
