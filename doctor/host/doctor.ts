/** Asks everything that can be known about a host on the host itself. The table is the order of the screen; docs/reference/doctor.md explains it. */
import { type Check, runChecks } from "../checks.ts";
import type { Report } from "../report.ts";
import { pools, stored } from "./addresses.ts";
import { agentHealth, agentSocket, agentVersion } from "./agent.ts";
import { hostEndsUp, mtu, outside, podRoutes, podSettings, reversePath } from "./links.ts";
import { chainedPlugins, firstList, installedVersion, listContent, otherLists, pluginStatus, token } from "./lists.ts";
import { firewalld, forwardChains, networkd, networkManager } from "./neighbours.ts";
import { policy } from "./policy.ts";
import { leftOvers } from "./products.ts";
import { clock, forwarding, referencePlugins, systemCheck } from "./system.ts";
import { type HostOptions, HostView } from "./view.ts";

export type { HostOptions } from "./view.ts";

const check = (group: string, name: string, object: string, look: Check<HostView>["look"]): Check<HostView> => ({
  group,
  check: name,
  object,
  look,
});

export const HOST_CHECKS: readonly Check<HostView>[] = [
  check("host", "libc", "this host", systemCheck("libc")),
  check("host", "kernel", "this host", systemCheck("kernel")),
  check("host", "memory", "this host", systemCheck("memory")),
  check("host", "forwarding", "this host", forwarding),
  check("host", "clock", "clock", clock),
  check("plugins", "first-list", "network configuration", firstList),
  check("plugins", "other-lists", "network configuration", otherLists),
  check("plugins", "list", "network configuration", listContent),
  check("plugins", "reference-plugins", "plugins", referencePlugins),
  check("plugins", "plugin-versions", "plugins", chainedPlugins),
  check("plugins", "installed-version", "plugins", installedVersion),
  check("plugins", "token", "credentials", token),
  check("plugins", "status", "plugins", pluginStatus),
  check("agent", "agent-socket", "agent", agentSocket),
  check("agent", "agent-health", "agent", agentHealth),
  check("agent", "agent-version", "agent", agentVersion),
  check("addresses", "pools", "datastore", pools),
  check("addresses", "ipam-check", "datastore", stored),
  check("pods", "interfaces", "interfaces of pods", hostEndsUp),
  check("pods", "routes", "interfaces of pods", podRoutes),
  check("pods", "default-route", "route to the outside", outside),
  check("pods", "settings", "interfaces of pods", podSettings),
  check("pods", "rp-filter", "interfaces of pods", reversePath),
  check("pods", "mtu", "interfaces of pods", mtu),
  check("neighbours", "networkd", "systemd-networkd", networkd),
  check("neighbours", "network-manager", "NetworkManager", networkManager),
  check("neighbours", "firewalld", "firewalld", firewalld),
  check("neighbours", "forward-chains", "packet filter", forwardChains),
  check("neighbours", "left-overs", "packet filter", leftOvers),
  check("policy", "policy", "network policy", policy),
];

/** Looks at this host and changes nothing. A check that cannot look says so and keeps no other from looking. */
export async function runHostDoctor(options: HostOptions): Promise<Report> {
  await using view = new HostView(options);
  const results = await runChecks(HOST_CHECKS, view);
  return { time: new Date().toISOString(), host: options.host, version: options.version, results };
}
