/**
 * CNI CHECK: compare the kernel, the addresses and the endpoint's record with what ADD left, and name every difference.
 *
 * CRI-O asks after every ADD and ends a sandbox whose CHECK fails, so what cannot be compared counts as right: a record in a cluster
 * that does not answer now. What a container needs is looked at in the kernel (invariant 12).
 */

import type { RecordedLink } from "../dataplane/dataplane.ts";
import { formatPrefix } from "../lib/addresses/address.ts";
import { refuseOwnNamespace } from "../lib/cni/own-namespace.ts";
import type { CniRequest, CniResult } from "../lib/cni/protocol.ts";
import { parseResult } from "../lib/cni/result.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { verifyNamespacePath } from "../lib/system/netns.ts";
import { resultOf, wantsHostRoutes } from "./assignment.ts";
import { identifyNewAttachment } from "./attachment.ts";
import { findIpam } from "./find-ipam.ts";
import { inTime } from "./in-time.ts";
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
  const subject = await ifAnswered("record and addresses", services, () => inTime(readSubject(attachment, config, services)));
  const previous = previousResult(request, config, subject?.known);
  const plan = planAttachment(config, {
    ...attachment,
    predecessors: [],
    mac: subject?.wishes.mac,
    customDestinations: destinations,
    forwardOnNode: services.isStandalone,
  });

  const addresses = previous.ips.map((ip) => narrowAddress(ip.address));
  // The annotations that name addresses leave the result without routes (C§2.5).
  const isFromIpam = subject === undefined || subject.wishes.addresses.kind === "ipam";
  const hostRoutes = !isFromIpam || wantsHostRoutes(previous, plugin, services);
  const desired = desiredStateOf(plan, addresses, hostRoutes);
  const differences = (await services.dataplane.inspect(desired, podEndOf(previous, request))).map(
    ({ side, object, wanted, found }) => `${side} ${object}: wanted ${wanted}, found ${found}`,
  );
  if (subject !== undefined) {
    differences.push(...recordDifferences(subject.known, request.containerId, desired.pod.addresses.map(formatPrefix)));
  }
  services.log.step("inspect");
  if (differences.length > 0) {
    throw new TortieError(
      "check-failed",
      `container ${request.containerId}, interface ${request.interfaceName}: ${differences.join("; ")}`,
    );
  }
  // Addresses without IPAM are not IPAM's to know.
  if (subject === undefined || subject.wishes.addresses.kind === "without-ipam") return;
  await ifAnswered("addresses", services, () => chooseIpam(request, config, ipamStdinForDel(request), services).run("CHECK"));
  services.log.step("ipam");
}

/** @returns `undefined` when the datastore cannot be asked now */
async function ifAnswered<T>(what: string, { log }: Services, ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (!isDatastoreFailure(error, "unavailable", "unauthorized")) throw error;
    log.error(`not compared: ${what}: ${messageOf(error)}`);
    return undefined;
  }
}

/**
 * What the result of the whole chain says about the pod end. Its MTU is left out: the plugin `tuning` changes that of the link and not
 * that of the result.
 */
function podEndOf(previous: CniResult, { interfaceName }: CniRequest): RecordedLink {
  return { mac: previous.interfaces.find(({ name, sandbox }) => name === interfaceName && sandbox !== undefined)?.mac };
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
