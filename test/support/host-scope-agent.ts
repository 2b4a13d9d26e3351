/** Agents that grant addresses of a range of their node's: how they are started, and the files of what they granted. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Agent } from "./agent.ts";
import { localConf } from "./conf.ts";

export const HOST_SCOPE = [
  "--ipam",
  "host-scope",
  "--ipv4-range",
  "10.62.0.0/24",
  "--enable-ipv6",
  "false",
  "--ipam-strategy",
  "contiguous",
];

/** A network of the main plugin with addresses that this agent grants. */
export function hostScopeConf({ node, netconf }: Agent, change: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return localConf(node, { ipam: { type: "tortie-host-scope" }, cniVersion: "1.1.0", ...netconf, ...change });
}

/** The file of a grant. */
export const grantOf = ({ runDir }: Pick<Agent, "runDir">, address: string) => join(runDir, "state/ipam/v4", address);

/** Addresses of IPv4 that are granted, also to the node itself. */
export function granted(agent: Pick<Agent, "runDir">): readonly string[] {
  const names = readdirSync(grantOf(agent, ""));
  return names.filter((name) => /^[0-9.]+$/.test(name)).sort();
}
