/**
 * What a pod's annotations change in the configuration that the IPAM plugin gets (C§2.3 S6): as JSON, and decoded. The two say the same.
 */
import type { NetworkConfig } from "../../config/network-config.ts";
import { isJsonObject, type JsonObject, type JsonValue, memberOf, withMember } from "../../json/value.ts";
import type { PodRequests } from "./requests.ts";

type IpamRequests = Pick<PodRequests, "pools" | "families" | "addresses">;

/**
 * The netconf with the pod's pools and families in its `ipam` section (recording spy-annotations), and without the `ips` that the
 * runtime asks for where the pod names addresses itself. No number loses a digit.
 *
 * @returns the very object that was given when the pod asks for nothing of the kind
 */
export function withPodPools(netconf: JsonObject, requests: IpamRequests): JsonObject {
  let edited = netconf;
  const section = memberOf(netconf, "ipam");
  if (isJsonObject(section)) {
    let changed = section;
    for (const [key, value] of Object.entries(ipamMembers(requests))) changed = withMember(changed, key, value);
    if (changed !== section) edited = withMember(edited, "ipam", changed);
  }
  const runtimeConfig = memberOf(netconf, "runtimeConfig");
  if (requests.addresses.kind !== "ipam" && isJsonObject(runtimeConfig) && memberOf(runtimeConfig, "ips") !== undefined) {
    edited = withMember(edited, "runtimeConfig", withMember(runtimeConfig, "ips", undefined));
  }
  return edited;
}

/** The same of the decoded configuration, for an IPAM plugin that is served in this process. */
export function configWithPodPools(config: NetworkConfig, requests: IpamRequests): NetworkConfig {
  const { pools, families, addresses } = requests;
  const { ipam, runtimeConfig } = config;
  return {
    ...config,
    ipam: {
      ...ipam,
      ipv4Pools: pools.ipv4 ?? ipam.ipv4Pools,
      ipv6Pools: pools.ipv6 ?? ipam.ipv6Pools,
      assignIpv4: families?.ipv4 ?? ipam.assignIpv4,
      assignIpv6: families?.ipv6 ?? ipam.assignIpv6,
    },
    runtimeConfig: addresses.kind === "ipam" ? runtimeConfig : { ...runtimeConfig, ips: [] },
  };
}

/** The members of `ipam` that are set; the families are words, not booleans (I§1.3). */
function ipamMembers({ pools, families }: IpamRequests): Readonly<Record<string, JsonValue>> {
  return {
    ...(pools.ipv4 === undefined ? {} : { ipv4_pools: pools.ipv4 }),
    ...(pools.ipv6 === undefined ? {} : { ipv6_pools: pools.ipv6 }),
    ...(families === undefined ? {} : { assign_ipv4: String(families.ipv4), assign_ipv6: String(families.ipv6) }),
  };
}
