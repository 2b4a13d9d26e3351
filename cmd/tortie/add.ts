/** CNI ADD: give one attachment its address, links, routes and endpoint, or leave nothing behind (C§2, design invariant 5). */
import { formatPrefix } from "../../lib/addresses/address.ts";
import type { CniInterface, CniRequest, CniResult } from "../../lib/cni/protocol.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import type { WorkloadEndpoint } from "../../lib/datastore/resources.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { UndoStack } from "../../lib/undo.ts";
import { withProfile } from "../../lib/workload/endpoint.ts";
import { refuseOwnNamespace } from "../own-namespace.ts";
import { assignAddresses } from "./assign-addresses.ts";
import { endpointOf, identifyNewAttachment, type NewAttachment } from "./attachment.ts";
import { assertClusterReady } from "./cluster-ready.ts";
import { Expectation } from "./expectation.ts";
import { findIpam, isInProcess } from "./ipam.ts";
import { ipamInputForAdd } from "./ipam-input.ts";
import { readIpamSection } from "./ipam-stdin.ts";
import { desiredStateOf, narrowAddress, planAttachment } from "./plan.ts";
import { saying } from "./saying.ts";
import type { Services } from "./services.ts";
import { readSubject } from "./subject.ts";

export async function add(request: CniRequest, config: NetworkConfig, services: Services): Promise<CniResult> {
  const { log, dataplane, isStandalone } = services;
  await services.headStart();
  const attachment = identifyNewAttachment(request, config, services.env);
  dataplane.verifySandbox(request.netns);
  refuseOwnNamespace(request);
  const section = readIpamSection(request, !isStandalone);
  const plugin = findIpam(request, config);
  log.step("checks");

  await (isStandalone ? services.datastore() : saying("error creating calico client", () => services.datastore()));
  log.step("open");
  const expectation = new Expectation(plugin, request, config, services);
  const ready = assertClusterReady(services);
  ready.catch(() => {});
  const read = () => readSubject(attachment, config, services, () => expectation.begin(ready));
  // Asked for together, but not before the gates: who waits there must not go by what was before.
  const reading = config.readinessGates.length === 0 ? read() : undefined;
  reading?.catch(() => {});
  if (!isStandalone) expectation.prepare();
  await ready;
  log.step("cluster");
  await passReadinessGates(config);
  const subject = await (reading ?? read());
  const input = await ipamInputForAdd(request, config, section, subject, services);
  const { destinations } = section;
  const plan = planAttachment(config, {
    ...attachment,
    mac: subject.wishes.mac,
    customDestinations: destinations,
    forwardOnNode: isStandalone,
  });
  log.step("datastore");

  await using undo = new UndoStack();
  const waitsForOthers = !(isStandalone && isInProcess(plugin, input.config));
  const prepare = () => dataplane.prepare(desiredStateOf(plan, []), undo);
  const overlap = { view: await expectation.view(), meanwhile: waitsForOthers ? prepare : undefined };
  const assigned = await assignAddresses({ attachment, subject, plugin, input, overlap }, undo, services);
  log.step("ipam");
  if (assigned.isKept && (await dataplane.hasPodEnd(request.netns, request.interfaceName))) {
    // The container has what it asked for already (C§2.6 step 2): the kernel is not touched, the answer is made of the record.
    if (subject.record !== undefined) await subject.write(withProfile(subject.record, request.network));
    undo.keepAll();
    return resultOf(request, attachment, assigned.result, subject.record?.mac);
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
  await waitForPolicy(endpoint, config, log);
  return resultOf(request, attachment, assigned.result, applied.podMac);
}

/** C§2.2. Few configurations have gates. */
async function passReadinessGates({ readinessGates }: NetworkConfig): Promise<void> {
  if (readinessGates.length === 0) return;
  const { awaitReadinessGates } = await import("./readiness-gates.ts");
  await awaitReadinessGates(readinessGates);
}

/** C§2.8, for pods whose policy is Felix's. It being late is no failure. */
async function waitForPolicy(endpoint: WorkloadEndpoint, config: NetworkConfig, log: Logger): Promise<void> {
  if (endpoint.orchestrator !== "k8s" || config.policySetupTimeoutSeconds <= 0) return;
  const { awaitPolicy } = await import("./policy-wait.ts");
  const timeoutMs = config.policySetupTimeoutSeconds * 1000;
  const warning = await awaitPolicy({ endpoint, directory: config.endpointStatusDir, timeoutMs });
  if (warning !== undefined) log.error(warning);
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
