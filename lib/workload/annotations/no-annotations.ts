/** The wishes of a workload that has no annotations to read: a plain container, or a pod of another policy type. */
import type { NetworkConfig } from "../../config/network-config.ts";
import type { CniArgs } from "../cni-args.ts";
import { requestedMac } from "../requested.ts";
import type { WishedPools } from "./pools.ts";
import type { PodWishes } from "./wishes.ts";

export const NO_POOLS: WishedPools = { ipv4: undefined, ipv6: undefined };

/** @throws TortieError `mac-invalid` */
export function withoutAnnotations(config: Pick<NetworkConfig, "runtimeConfig">, args: Pick<CniArgs, "mac">): PodWishes {
  return {
    pools: NO_POOLS,
    families: undefined,
    addresses: { kind: "ipam" },
    mac: requestedMac(config, args),
    floatingIps: [],
    allowedSourcePrefixes: [],
  };
}
