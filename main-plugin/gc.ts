/**
 * CNI GC: remove what belongs to attachments of this network and node that the runtime no longer knows (CNI 1.1.0): links first, then
 * addresses, then records. Goes on after errors; the address of a link that could not be removed is kept (design, invariant 3).
 *
 * Records that are annotations of pods are the IPAM plugin's to blank: only the addresses say which pods they were given to, and a
 * plugin may not list pods (C§8.2).
 */
import type { CniRequest, ValidAttachment } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { nodeName } from "../lib/config/node-name.ts";
import { attachmentsToKeep } from "../lib/config/valid-attachments.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import type { WorkloadEndpoint } from "../lib/workload/workload-endpoint.ts";
import { assertClusterReady } from "./cluster-ready.ts";
import { chooseIpam } from "./ipam.ts";
import { encode } from "./ipam-stdin.ts";
import { Outcome } from "./outcome.ts";
import type { Services } from "./services.ts";

export async function gc(request: CniRequest, config: NetworkConfig, services: Services): Promise<void> {
  const validAttachments = attachmentsToKeep(config);
  const outcome = new Outcome(services.log);
  const kept = [...validAttachments];
  for (const link of await services.dataplane.list()) {
    const { hostInterface, owner } = link;
    if (owner === undefined) {
      await outcome.attempt(`remove ${hostInterface}, which an ADD that was killed left`, () => services.dataplane.remove(link));
      continue;
    }
    if (owner.network !== request.network || isListed(validAttachments, owner.containerId, owner.interfaceName)) continue;
    const isGone = await outcome.attempt(`remove the link ${hostInterface} of container ${owner.containerId}`, () =>
      services.dataplane.remove(link),
    );
    if (!isGone) kept.push({ containerID: owner.containerId, ifname: owner.interfaceName });
  }
  services.log.step("dataplane");

  if (!(await outcome.attempt("ask the cluster", () => assertClusterReady(services)))) return outcome.report();
  await outcome.attempt("release the addresses", () => collectAddresses(request, config, kept, services));
  services.log.step("ipam");
  if (services.datastoreType !== "kubernetes") {
    await outcome.attempt("remove the endpoints", () => collectEndpoints(request, config, kept, services));
    services.log.step("endpoint");
  }
  outcome.report();
}

async function collectAddresses(
  request: CniRequest,
  config: NetworkConfig,
  kept: readonly ValidAttachment[],
  services: Services,
): Promise<void> {
  const netconf = { ...request.netconf, "cni.dev/valid-attachments": kept.map((one) => ({ ...one })) };
  await chooseIpam(request, { ...config, validAttachments: kept }, encode(netconf), services).run("GC");
}

async function collectEndpoints(
  request: CniRequest,
  config: NetworkConfig,
  kept: readonly ValidAttachment[],
  services: Services,
): Promise<void> {
  const { endpoints } = await services.datastore();
  const node = nodeName(config);
  const isOrphan = (endpoint: WorkloadEndpoint) =>
    endpoint.node === node &&
    endpoint.profiles.length === 1 &&
    endpoint.profiles[0] === request.network &&
    !isListed(kept, endpoint.containerID, endpoint.endpoint);
  for (const { value, revision } of await endpoints.list()) {
    if (!isOrphan(value)) continue;
    try {
      await endpoints.delete({ namespace: value.namespace, name: value.name }, revision);
    } catch (error) {
      // Somebody else removed it, or a new sandbox took it over: either way it is no orphan any more.
      if (!isDatastoreFailure(error, "not-found", "conflict")) throw error;
    }
  }
}

function isListed(attachments: readonly ValidAttachment[], containerId: string, interfaceName: string): boolean {
  return attachments.some((one) => one.containerID === containerId && one.ifname === interfaceName);
}
