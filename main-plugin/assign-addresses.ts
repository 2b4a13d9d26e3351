/** Where the addresses of an attachment come from: its record, its annotations, or the IPAM plugin (C§2.5, C§2.6 step 2). */
import { formatPrefix, hostPrefix } from "../lib/addresses/address.ts";
import type { CniIp } from "../lib/cni/protocol.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { Undo } from "../lib/system/undo.ts";
import { type Assigned, type Assignment, resultOf, wantsHostRoutes } from "./assignment.ts";
import { connectIpam } from "./ipam.ts";
import { addAddresses } from "./killed-add.ts";
import type { Services } from "./services.ts";
import { isRepeated } from "./subject.ts";

/**
 * @param undo gives back what was taken, and nothing that the container held before
 * @throws TortieError `ipam-no-addresses`, and what the IPAM plugin says
 */
export async function assignAddresses(assignment: Assignment, undo: Undo, services: Services): Promise<Assigned> {
  const { attachment, subject } = assignment;
  const kept = recordedAddresses(assignment);
  if (kept !== undefined) {
    services.log.info("container was added before: its addresses are kept", { addresses: kept.map(({ address }) => address).join(",") });
    return { isKept: true, hostRoutes: true, result: resultOf(kept) };
  }
  const { addresses } = subject.wishes;
  if (addresses.kind === "without-ipam") {
    const ips = addresses.addresses.map((address) => ({ address: formatPrefix(hostPrefix(address)) }));
    return { isKept: false, hostRoutes: true, result: resultOf(ips) };
  }
  if (addresses.kind === "requested") {
    const { assignWished } = await import("./wished-addresses.ts");
    return assignWished(assignment, addresses.addresses, undo, services);
  }
  const { plugin, input } = assignment;
  const ipam = connectIpam(plugin, input.request, input.config, services);
  const repeated = isRepeated(subject, attachment.identity.containerId);
  const result = repeated ? await ipam.add(undo, true) : await addAddresses(attachment, subject, ipam, undo, services);
  if (result.ips.length === 0) {
    throw new TortieError(
      "ipam-no-addresses",
      `IPAM plugin returned missing IP config: "${input.config.ipam.type}" gave no address for container ${input.request.containerId}`,
    );
  }
  return { isKept: false, hostRoutes: wantsHostRoutes(result, plugin, services), result };
}

/**
 * A plain container that was added before keeps the addresses of its record (C§2.6 step 2), as tests of Calico demand; every ADD of a
 * Kubernetes pod takes new ones (C§2.3).
 */
function recordedAddresses({ attachment: { identity }, subject }: Assignment): readonly CniIp[] | undefined {
  if (identity.orchestrator !== "cni" || !isRepeated(subject, identity.containerId)) return undefined;
  return subject.known?.ipNetworks.map((address) => ({ address }));
}
