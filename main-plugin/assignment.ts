/** What CHECK compares addresses with. */
import type { CniIp, CniResult } from "../lib/cni/protocol.ts";
import type { IpamPlugin } from "./ipam-source.ts";
import type { Services } from "./services.ts";

/** An empty route list of our own IPAM plugin marks the target of a live migration (C§2.3 S9). */
export function wantsHostRoutes(result: CniResult, plugin: Pick<IpamPlugin, "isOurs">, services: Pick<Services, "isStandalone">): boolean {
  return services.isStandalone || !plugin.isOurs || result.routes.length > 0;
}

/** An answer without routes and DNS (C§5.1). */
export function resultOf(ips: readonly CniIp[]): CniResult {
  return { interfaces: [], ips, routes: [], dns: {} };
}
