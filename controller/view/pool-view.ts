/** A pool with what the datastore's model leaves out: labels, finalizers, conditions, and the version that a patch is made from. */

import type { ApiGroup } from "../../lib/datastore/calico/group.ts";
import { poolCodec } from "../../lib/datastore/calico/pool.ts";
import type { IPPool } from "../../lib/datastore/resources.ts";
import { type Fields, objects, section } from "../../lib/json/decode.ts";
import { metadataOf } from "../../lib/kubernetes/objects.ts";
import type { Selection } from "../../lib/kubernetes/watch/kubernetes-feed.ts";

export interface PoolView {
  readonly pool: IPPool;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  /** `status.conditions`, Calico's own included. */
  readonly conditions: readonly Fields[];
}

export function poolSelection(group: ApiGroup): Selection<PoolView> {
  return { name: "ippools", path: `/apis/${group}/ippools`, decode: decodePoolView };
}

function decodePoolView(object: Fields): PoolView {
  const metadata = metadataOf(object);
  const status = section(object, "status");
  const { finalizers } = section(object, "metadata");
  return {
    pool: poolCodec.decode({ metadata, spec: section(object, "spec"), status }),
    resourceVersion: metadata.resourceVersion,
    labels: metadata.labels,
    finalizers: Array.isArray(finalizers) ? finalizers.filter((name) => typeof name === "string") : [],
    conditions: objects(status, "conditions"),
  };
}
