/** CNI CHECK: compare the kernel, the addresses and the endpoint's record with what ADD left, and name every difference. */

import type { RecordedLink } from "../dataplane/dataplane.ts";
import { formatPrefix } from "../lib/addresses/address.ts";
import { refuseOwnNamespace } from "../lib/cni/own-namespace.ts";
import type { CniRequest, CniResult } from "../lib/cni/protocol.ts";
import { parseResult } from "../lib/cni/result.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { verifyNamespacePath } from "../lib/system/netns.ts";
import { resultOf, wantsHostRoutes } from "./assignment.ts";
import { identifyNewAttachment } from "./attachment.ts";
import { findIpam } from "./find-ipam.ts";
import { chooseIpam } from "./ipam.ts";
import { ipamStdinForDel, readIpamSection } from "./ipam-stdin.ts";
import { desiredStateOf, narrowAddress, planAttachment } from "./plan.ts";
import type { Services } from "./services.ts";
import { type RecordedAddresses, readSubject } from "./subject.ts";

export async function check(request: CniRequest, config: NetworkConfig, services: Services): Promise<void> {
  const attachment = identifyNewAttachment(request, config, services.env);
  verifyNamespacePath(request.netns);
  refuseOwnNamespace(request);
  const plugin = findIpam(request, config);
  const { destinations } = readIpamSection(request, !services.isStandalone);
  const { known, wishes } = await readSubject(attachment, config, services);
  const previous = previousResult(request, config, known);
  const plan = planAttachment(config, {
    ...attachment,
    predecessors: [],
    mac: wishes.mac,
    customDestinations: destinations,
    forwardOnNode: services.isStandalone,
  });

  const addresses = previous.ips.map((ip) => narrowAddress(ip.address));
  // The annotations that name addresses leave the result without routes (C§2.5).
  const hostRoutes = wishes.addresses.kind !== "ipam" || wantsHostRoutes(previous, plugin, services);
  const desired = desiredStateOf(plan, addresses, hostRoutes);
  const differences = (await services.dataplane.inspect(desired, podEndOf(previous, request))).map(
    ({ side, object, wanted, found }) => `${side} ${object}: wanted ${wanted}, found ${found}`,
  );
  differences.push(...recordDifferences(known, request.containerId, desired.pod.addresses.map(formatPrefix)));
  services.log.step("inspect");
  if (differences.length > 0) {
    throw new TortieError(
      "check-failed",
      `container ${request.containerId}, interface ${request.interfaceName}: ${differences.join("; ")}`,
    );
  }
  // These addresses are not IPAM's to know.
  if (wishes.addresses.kind === "without-ipam") return;
  await chooseIpam(request, config, ipamStdinForDel(request), services).run("CHECK");
  services.log.step("ipam");
}

/** What the result of the whole chain says about the pod end: plugins after this one may have changed it. */
function podEndOf(previous: CniResult, { interfaceName }: CniRequest): RecordedLink {
  const { mac, mtu } = previous.interfaces.find(({ name, sandbox }) => name === interfaceName && sandbox !== undefined) ?? {};
  return { mac, mtu };
}

/** `prevResult`, which runtimes must send; without it, what the record says. */
function previousResult(request: CniRequest, config: NetworkConfig, known: RecordedAddresses | undefined): CniResult {
  if (config.prevResult !== undefined) return parseResult(config.prevResult, request.cniVersion, "prevResult");
  if (known?.containerID === request.containerId) return resultOf(known.ipNetworks.map((address) => ({ address })));
  throw new TortieError("container-unknown", `container ${request.containerId} has no prevResult and no endpoint: nothing to compare with`);
}

function recordDifferences(known: RecordedAddresses | undefined, containerId: string, addresses: readonly string[]): string[] {
  if (known === undefined) return [`endpoint record: wanted container ${containerId}, found none`];
  if (known.containerID !== containerId) return [`endpoint record: wanted container ${containerId}, found container ${known.containerID}`];
  const [wanted, found] = [addresses.join(","), known.ipNetworks.join(",")];
  return wanted === found ? [] : [`endpoint record: wanted addresses ${wanted}, found ${found}`];
}
