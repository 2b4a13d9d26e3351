/** The section `ipam` (C§1.2, I§1.3), Tortie's own keys included. */
import { anything, boolean, type Decoded, list, record, text, texts } from "./codec.ts";
import { localPool, NO_POOL, poolSchema } from "./local-pools.ts";
import type { IpamConfig } from "./network-config.ts";

export const ipamSchema = record({
  name: text,
  type: text,
  subnet: text,
  ranges: anything,
  routes: anything,
  assign_ipv4: text,
  assign_ipv6: text,
  ipv4_pools: texts,
  ipv6_pools: texts,
  pools: list(poolSchema, "a list of objects", NO_POOL),
  in_process: boolean,
});

/** Addresses from the node's own ranges (A§4); no executable has this name. */
export const HOST_SCOPE = "tortie-host-scope";

/** The plugins that read pools and families from this section, and take single addresses by name: Calico's and ours (C§2.3 S6). */
export function isCalicoIpam(type: string): boolean {
  return type === "calico-ipam" || type === "tortie-ipam";
}

export function ipamConfig(given: Decoded<typeof ipamSchema> | undefined): IpamConfig {
  return {
    type: given?.type ?? "",
    subnet: given?.subnet || undefined,
    ranges: given?.ranges ?? undefined,
    routes: given?.routes ?? undefined,
    // Exactly these words count, in exactly this case (recording family-odd-words).
    assignIpv4: given?.assign_ipv4 !== "false",
    assignIpv6: given?.assign_ipv6 === "true",
    ipv4Pools: given?.ipv4_pools,
    ipv6Pools: given?.ipv6_pools,
    pools: (given?.pools ?? []).map(localPool),
    inProcess: given?.in_process ?? true,
  };
}
