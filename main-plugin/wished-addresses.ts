/**
 * The annotation `ipAddrs`: one ADD of the IPAM plugin for each address, which finds it as `IP=` at the end of CNI_ARGS (C§2.5).
 *
 * An address that the pod's record has already is not taken from anybody else: this container keeps its own, and from the pod's older
 * sandbox it is released by that sandbox's handle once the link that carried it is gone. Calico releases by address alone, whoever has
 * it by then (C§12.2).
 */
import { type Address, formatAddress, formatPrefix, hostPrefix } from "../lib/addresses/address.ts";
import type { CniIp } from "../lib/cni/protocol.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import type { Undo } from "../lib/system/undo.ts";
import { workloadHandleId } from "../lib/workload/handles.ts";
import { type Assigned, type Assignment, resultOf, wantsHostRoutes } from "./assignment.ts";
import { connectIpam } from "./ipam.ts";
import { addAddresses } from "./killed-add.ts";
import { saying } from "./saying.ts";
import type { Services } from "./services.ts";
import { isRepeated } from "./subject.ts";

/** All of them or none. @throws TortieError `ipam-no-addresses`, and what the IPAM plugin says */
export async function assignWished(
  assignment: Assignment,
  addresses: readonly Address[],
  undo: Undo,
  services: Services,
): Promise<Assigned> {
  const { attachment, subject, plugin, input } = assignment;
  const repeated = isRepeated(subject, attachment.identity.containerId);
  const ips: CniIp[] = [];
  let hostRoutes = true;
  let isFirst = !repeated;
  for (const address of addresses) {
    const recorded = formatPrefix(hostPrefix(address));
    if (subject.known?.ipNetworks.includes(recorded) === true) {
      if (await keepsOrFrees(assignment, address, services)) {
        ips.push({ address: recorded });
        continue;
      }
    }
    // Beats an `IP=` that is there, because the last one counts (recording ipaddrs-and-ip-arg).
    const args = `${input.request.args};IP=${formatAddress(address)}`;
    const ipam = connectIpam(plugin, { ...input.request, args }, input.config, services);
    const result = await saying("error getting IP from IPAM", () =>
      isFirst ? addAddresses(attachment, subject, ipam, undo, services) : ipam.add(undo, repeated),
    );
    isFirst = false;
    const [ip] = result.ips;
    if (ip === undefined) {
      throw new TortieError(
        "ipam-no-addresses",
        `IPAM plugin returned missing IP config: "${input.config.ipam.type}" did not give ${formatAddress(address)}`,
      );
    }
    hostRoutes &&= wantsHostRoutes(result, plugin, services);
    ips.push(ip);
  }
  return { isKept: false, hostRoutes, result: resultOf(ips) };
}

/**
 * @param address one that the pod's record has
 * @returns whether this very container holds it; when its older sandbox does, that one has lost it now
 */
async function keepsOrFrees({ attachment, subject, input }: Assignment, address: Address, services: Services): Promise<boolean> {
  const { identity, hostInterface } = attachment;
  const owner = subject.known?.containerID ?? "";
  const handle = workloadHandleId(input.request.network, owner);
  const { allocator } = await services.ipamServices();
  const held = await allocator.attributesOf(address);
  // Whoever may edit the pod may write another pod's container id into its record.
  const isOfThisPod = held?.activeOwner.namespace === identity.namespace && held.activeOwner.pod === identity.pod;
  if (held?.handle !== handle || !isOfThisPod) return false;
  if (owner === identity.containerId) return true;

  const alias = await services.dataplane.hostEndAlias(hostInterface);
  // Invariant 3. The name is the pod's own, so that the link is the older sandbox's.
  if (alias !== undefined) await services.dataplane.removeHostEnd(hostInterface, alias);
  services.log.info(`${formatAddress(address)} goes from container ${owner} to its pod's newer sandbox`);
  const { error } = await allocator.releaseIps([{ address, handle }]);
  if (error !== undefined) {
    throw new TortieError("release-mismatch", `failed to release ipAddrs: ${formatAddress(address)} of ${owner}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return false;
}
