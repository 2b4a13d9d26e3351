/**
 * CNI ADD: gives one attachment its addresses, link, routes and record, or leaves nothing behind (design §2, invariant 5).
 * The record is written last; whatever fails before takes everything back.
 */
import { formatPrefix } from "../lib/addresses/address.ts";
import { refuseOwnNamespace } from "../lib/cni/own-namespace.ts";
import type { CniInterface, CniRequest, CniResult } from "../lib/cni/protocol.ts";
import { renderResult } from "../lib/cni/result.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../lib/cni/version.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { WorkloadEndpoint } from "../lib/datastore/resources.ts";
import type { Logger } from "../lib/log/logger.ts";
import { verifyNamespacePath } from "../lib/system/netns.ts";
import { UndoStack } from "../lib/system/undo.ts";
import { withProfile } from "../lib/workload/endpoint.ts";
import { assignAddresses } from "./assign-addresses.ts";
import { endpointOf, identifyNewAttachment, type NewAttachment } from "./attachment.ts";
import { assertClusterReady } from "./cluster-ready.ts";
import { findIpam } from "./find-ipam.ts";
import { ipamInputForAdd } from "./ipam-input.ts";
import { readIpamSection } from "./ipam-stdin.ts";
import { desiredStateOf, narrowAddress, planAttachment } from "./plan.ts";
import { saying } from "./saying.ts";
import type { Services } from "./services.ts";
import { readSubject } from "./subject.ts";

/** @returns the result as it is to be printed */
export async function add(request: CniRequest, config: NetworkConfig, services: Services): Promise<string> {
  const { log, dataplane, isStandalone } = services;
  const attachment = identifyNewAttachment(request, config, services.env);
  verifyNamespacePath(request.netns);
  refuseOwnNamespace(request);
  const section = readIpamSection(request, !isStandalone);
  const plugin = findIpam(request, config);
  log.step("checks");

  await (isStandalone ? services.datastore() : saying("error creating calico client", () => services.datastore()));
  log.step("open");
  await assertClusterReady(services);
  log.step("cluster");
  // Who waits at a gate must not go by what the pod said before.
  if (config.readinessGates.length > 0) await passReadinessGates(config);
  const subject = await readSubject(attachment, config, services);
  const input = await ipamInputForAdd(request, config, section, subject, services);
  const plan = planAttachment(config, {
    ...attachment,
    mac: subject.wishes.mac,
    customDestinations: section.destinations,
    forwardOnNode: isStandalone,
  });
  log.step("datastore");

  await using undo = new UndoStack();
  const assigned = await assignAddresses({ attachment, subject, plugin, input }, undo, services);
  log.step("ipam");
  if (assigned.isKept && (await dataplane.hasPodEnd(request.netns, request.interfaceName))) {
    // The container has what it asked for already (C§2.6 step 2): the kernel is not touched, the answer is made of the record.
    if (subject.record !== undefined) await subject.write(withProfile(subject.record, request.network));
    undo.keepAll();
    return render(request, resultOf(request, attachment, assigned.result, subject.record?.mac));
  }

  const addresses = assigned.result.ips.map((ip) => narrowAddress(ip.address));
  const desired = desiredStateOf(plan, addresses, assigned.hostRoutes);
  const applied = await dataplane.apply(desired, undo);
  for (const warning of applied.warnings) log.error(warning);
  log.step("dataplane");
  if (isStandalone) await services.ensureOutgoing();
  log.step("nat");

  const endpoint = endpointOf(subject, config, desired, applied.podMac);
  await subject.write(endpoint);
  log.step("endpoint");
  undo.keepAll(); // success: keep what was built
  if (config.policySetupTimeoutSeconds > 0) await waitForPolicy(endpoint, config, log);
  return render(request, resultOf(request, attachment, assigned.result, applied.podMac));
}

/** C§2.2. Few configurations have gates. */
async function passReadinessGates({ readinessGates }: NetworkConfig): Promise<void> {
  const { awaitReadinessGates } = await import("./readiness-gates.ts");
  await awaitReadinessGates(readinessGates);
}

/** C§2.8, for pods whose policy is Felix's. It being late is no failure. */
async function waitForPolicy(endpoint: WorkloadEndpoint, config: NetworkConfig, log: Logger): Promise<void> {
  if (endpoint.orchestrator !== "k8s") return;
  const { awaitPolicy } = await import("./policy-wait.ts");
  const timeoutMs = config.policySetupTimeoutSeconds * 1000;
  const warning = await awaitPolicy({ endpoint, directory: config.endpointStatusDir, timeoutMs });
  if (warning !== undefined) log.error(warning);
}

function render(request: CniRequest, result: CniResult): string {
  return renderResult(result, request.cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT);
}

/** C§5.1: the two ends of the link, the narrowed addresses without gateway, IPAM's routes and DNS as they came. */
function resultOf(request: CniRequest, attachment: NewAttachment, ipam: CniResult, mac: string | undefined): CniResult {
  const podEnd: CniInterface = {
    name: request.interfaceName,
    ...(mac === undefined ? {} : { mac }),
    ...(attachment.mtu === 0 ? {} : { mtu: attachment.mtu }),
    sandbox: request.netns,
  };
  return {
    interfaces: [{ name: attachment.hostInterface }, podEnd],
    ips: ipam.ips.map((ip) => ({ address: formatPrefix(narrowAddress(ip.address)), interface: 1 })),
    routes: ipam.routes,
    dns: ipam.dns,
  };
}
