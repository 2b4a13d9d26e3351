/**
 * Makes the kernel hold what joins this node's pods with those of others. Tunnels come before the routes through them, and routes that are
 * not wanted go before tunnels do, so that at no moment a route leads into nothing.
 *
 * A step that fails does not stop the others: one peer with a bad address must not cost the others their traffic.
 */
import { messageOf } from "../../lib/errors/errors.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import type { NetworkReport, NodeNetwork } from "../node-network.ts";
import { applyNodeRoutes } from "./apply-node-routes.ts";
import { applyTunnel, removeOtherTunnels } from "./apply-tunnel.ts";

export async function applyNetwork({ route }: HostSockets, network: NodeNetwork): Promise<NetworkReport> {
  const report = new Report();
  const devices = new Map<string, number>();
  for (const tunnel of network.tunnels) {
    try {
      devices.set(tunnel.name, await applyTunnel(route, tunnel, report));
    } catch (error) {
      report.failed.push(`tunnel ${tunnel.name}: ${messageOf(error)}`);
    }
  }
  applyNodeRoutes(route, network.routes, devices, report);
  await removeOtherTunnels(route, new Set(network.tunnels.map(({ name }) => name)), report);
  return report;
}

/** What the steps have done so far. */
export class Report {
  readonly changed: string[] = [];
  readonly failed: string[] = [];

  /** Runs one step and notes its failure. @returns whether it succeeded */
  try(what: string, step: () => void): boolean {
    try {
      step();
      this.changed.push(what);
      return true;
    } catch (error) {
      this.failed.push(`${what}: ${messageOf(error)}`);
      return false;
    }
  }
}
