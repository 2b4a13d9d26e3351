/** CNI ADD: give one attachment its address, links, routes and endpoint, or leave nothing behind (C§2, design invariant 5). */
import { formatPrefix } from "../../lib/addresses/address.ts";
import type { CniInterface, CniRequest, CniResult } from "../../lib/cni/protocol.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import type { WorkloadEndpoint } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors.ts";
import { UndoStack } from "../../lib/undo.ts";
import { withProfile } from "../../lib/workload/endpoint.ts";
import { refuseOwnNamespace } from "../own-namespace.ts";
import { type Attachment, endpointOf, identifyNewAttachment, type NewAttachment } from "./attachment.ts";
import { writeEndpoint } from "./endpoint-store.ts";
import { chooseIpam, type Ipam } from "./ipam.ts";
import { ipamStdinForAdd } from "./ipam-stdin.ts";
import { undoKilledAdd } from "./killed-add.ts";
import { desiredStateOf, narrowAddress, planAttachment } from "./plan.ts";
import type { Services } from "./services.ts";

export async function add(request: CniRequest, config: NetworkConfig, services: Services): Promise<CniResult> {
  const { log, dataplane } = services;
  const attachment = identifyNewAttachment(request, config, services.env);
  dataplane.verifySandbox(request.netns);
  refuseOwnNamespace(request);
  const { stdin, destinations } = ipamStdinForAdd(request);
  const ipam = chooseIpam(request, config, stdin, services);
  const plan = planAttachment(config, { ...attachment, customDestinations: destinations, forwardOnNode: services.isStandalone });
  log.step("plan");

  const datastore = await services.datastore();
  const known = (await datastore.endpoints.get(attachment.endpointKey))?.value;
  const isRepeated = known?.containerID === request.containerId;
  log.step("datastore");
  if (!isRepeated) await undoKilledAdd(attachment, ipam, services);

  await using undo = new UndoStack();
  const assigned = await addressesFor(attachment, known, isRepeated, () => ipam.add(undo, isRepeated), services);
  log.step("ipam");
  if (assigned.isKept && (await dataplane.hasPodEnd(request.netns, request.interfaceName))) {
    // The container has what it asked for already (C§2.6 step 2): the kernel is not touched, the answer is made of the record.
    if (known !== undefined) await writeEndpoint(datastore, withProfile(known, request.network));
    undo.keepAll();
    return resultOf(request, attachment, assigned.result, known?.mac);
  }
  if (assigned.result.ips.length === 0) {
    throw new TortieError(
      "ipam-no-addresses",
      `IPAM plugin returned missing IP config: "${config.ipam.type}" gave no address for container ${request.containerId}`,
    );
  }

  const addresses = assigned.result.ips.map((ip) => narrowAddress(ip.address));
  const desired = desiredStateOf(plan, addresses, wantsHostRoutes(assigned.result, ipam, services));
  const applied = await dataplane.apply(desired, undo);
  for (const warning of applied.warnings) log.error(warning);
  log.step("dataplane");
  if (services.isStandalone) await services.ensureOutgoing();
  log.step("nat");

  await writeEndpoint(datastore, endpointOf(attachment, config, desired, applied.podMac));
  log.step("endpoint");
  undo.keepAll(); // success: keep what was built
  return resultOf(request, attachment, assigned.result, applied.podMac);
}

/** An empty route list of our own IPAM plugin marks the target of a live migration, whose host routes come later (C§2.3 S9). */
export function wantsHostRoutes(result: CniResult, ipam: Ipam, services: Services): boolean {
  return services.isStandalone || !ipam.isOurs || result.routes.length > 0;
}

interface Assigned {
  readonly result: CniResult;
  /** The addresses are those of the endpoint's record: nothing was taken now. */
  readonly isKept: boolean;
}

/**
 * A plain container that was added before keeps the addresses of its record (C§2.6 step 2), as tests of Calico demand; every ADD of
 * a Kubernetes pod takes new ones (C§2.3).
 */
async function addressesFor(
  attachment: Attachment,
  known: WorkloadEndpoint | undefined,
  isRepeated: boolean,
  assign: () => Promise<CniResult>,
  services: Services,
): Promise<Assigned> {
  if (known !== undefined && isRepeated && attachment.identity.orchestrator === "cni" && known.ipNetworks.length > 0) {
    services.log.info("container was added before: its addresses are kept", { addresses: known.ipNetworks.join(",") });
    return { isKept: true, result: { interfaces: [], ips: known.ipNetworks.map((address) => ({ address })), routes: [], dns: {} } };
  }
  return { isKept: false, result: await assign() };
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
