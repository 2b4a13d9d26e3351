/** The IPIP tunnel keeps the address it had under host-local, the first of the node's pod CIDR (I§7 step 2). */
import { addressAt, formatAddress, maskPrefix, parsePrefix, sizeOf } from "../../lib/addresses/address.ts";
import { claimAddress } from "./claim-address.ts";
import { persistently } from "./persistently.ts";
import type { UpgradeCluster, UpgradePorts } from "./ports.ts";

/**
 * Nothing to do for a node that has one, and for IPv6. The address is claimed before the node names it, so that a node killed in
 * between claims it again. One that a pod has by mistake is not named: the node agent finds another at its start.
 */
export async function ensureTunnelAddress(ports: UpgradePorts, cluster: UpgradeCluster): Promise<void> {
  const { node } = ports;
  if (((await cluster.tunnelAddress()) ?? "") !== "") return;
  const podCidr = parsePrefix((await cluster.podCidr()) ?? "");
  if (podCidr === undefined || podCidr.address.family === 6 || sizeOf(podCidr) < 2n) return;
  const address = addressAt(maskPrefix(podCidr), 1);
  const claimant = { handle: `ipip-tunnel-addr-${node}`, attributes: { node, type: "ipipTunnelAddress" } };
  if (!(await claimAddress(ports, address, claimant))) return;
  await persistently(ports, () => cluster.setTunnelAddress(formatAddress(address)));
}
