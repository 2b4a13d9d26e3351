/** Asks everything that can be known about a host on the host itself. The table is the order of the screen; docs/reference/doctor.md explains it. */
import { type Check, row, runChecks } from "../checks.ts";
import type { Report } from "../report.ts";
import { grants, pools, stored } from "./addresses.ts";
import { agentHealth, agentSocket, agentVersion } from "./agent.ts";
import { hostEndsUp, mtu, outside, podRoutes, podSettings, reversePath } from "./links.ts";
import { chainedPlugins, firstList, installedVersion, listContent, otherLists, pluginStatus, token } from "./lists.ts";
import { firewalld, forwardChains, networkd, networkManager } from "./neighbours.ts";
import { policy } from "./policy.ts";
import { leftOvers } from "./products.ts";
import { clock, forwarding, referencePlugins, systemCheck } from "./system.ts";
import { type HostOptions, HostView } from "./view.ts";

export type { HostOptions } from "./view.ts";

export const HOST_CHECKS: readonly Check<HostView>[] = [
  row("host", "libc", "this host", systemCheck("libc")),
  row("host", "kernel", "this host", systemCheck("kernel")),
  row("host", "memory", "this host", systemCheck("memory")),
  row("host", "forwarding", "this host", forwarding),
  row("host", "clock", "clock", clock),
  row("plugins", "first-list", "network configuration", firstList),
  row("plugins", "other-lists", "network configuration", otherLists),
  row("plugins", "list", "network configuration", listContent),
  row("plugins", "reference-plugins", "plugins", referencePlugins),
  row("plugins", "plugin-versions", "plugins", chainedPlugins),
  row("plugins", "installed-version", "plugins", installedVersion),
  row("plugins", "token", "credentials", token),
  row("plugins", "status", "plugins", pluginStatus),
  row("agent", "agent-socket", "agent", agentSocket),
  row("agent", "agent-health", "agent", agentHealth),
  row("agent", "agent-version", "agent", agentVersion),
  row("addresses", "pools", "datastore", pools),
  row("addresses", "ipam-check", "datastore", stored),
  row("addresses", "grants", "interfaces of pods", grants),
  row("pods", "interfaces", "interfaces of pods", hostEndsUp),
  row("pods", "routes", "interfaces of pods", podRoutes),
  row("pods", "default-route", "route to the outside", outside),
  row("pods", "settings", "interfaces of pods", podSettings),
  row("pods", "rp-filter", "interfaces of pods", reversePath),
  row("pods", "mtu", "interfaces of pods", mtu),
  row("neighbours", "networkd", "systemd-networkd", networkd),
  row("neighbours", "network-manager", "NetworkManager", networkManager),
  row("neighbours", "firewalld", "firewalld", firewalld),
  row("neighbours", "forward-chains", "packet filter", forwardChains),
  row("neighbours", "left-overs", "packet filter", leftOvers),
  row("policy", "policy", "network policy", policy),
];

/** Looks at this host and changes nothing. A check that cannot look says so and keeps no other from looking. */
export async function runHostDoctor(options: HostOptions): Promise<Report> {
  await using view = new HostView(options);
  const results = await runChecks(HOST_CHECKS, view);
  return { time: new Date().toISOString(), host: options.host, version: options.version, results };
}
