/** The wishes of a workload that has no annotations to read: a plain container, or a pod of another policy type. */
import type { Requested } from "../requested.ts";
import type { WishedPools } from "./pools.ts";
import type { PodWishes } from "./wishes.ts";

export const NO_POOLS: WishedPools = { ipv4: undefined, ipv6: undefined };

export function withoutAnnotations({ mac }: Pick<Requested, "mac">): PodWishes {
  return {
    pools: NO_POOLS,
    families: undefined,
    addresses: { kind: "ipam" },
    mac,
    floatingIps: [],
    allowedSourcePrefixes: [],
  };
}
