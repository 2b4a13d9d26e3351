/**
 * CNI GC: remove what belongs to attachments of this network and node that the runtime no longer knows (CNI 1.1.0): links first, then
 * addresses, then records. Goes on after errors; the address of a link that could not be removed is kept (design, invariant 3).
 *
 * Records kept as annotations of pods are cleared by the IPAM plugin: only the addresses say which pods they were given to, and a
 * plugin may not list pods (C§8.2).
 */
import type { ValidAttachment } from "../lib/cni/protocol.ts";
import { attachmentsToKeep } from "../lib/config/valid-attachments.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import type { WorkloadEndpoint } from "../lib/workload/workload-endpoint.ts";
import { Teardown } from "./attachment/teardown.ts";
import type { NetworkCall } from "./call.ts";
import { encode } from "./delegates/host-local.ts";
import { assertClusterReady } from "./gates.ts";
import { connectIpam, findIpam } from "./ipam-source.ts";
import type { Node } from "./node.ts";

export async function gc(call: NetworkCall, node: Node): Promise<void> {
  const { request, config, log } = call;
  const validAttachments = attachmentsToKeep(config);
  const teardown = new Teardown(log);
  const kept = [...validAttachments];
  for (const link of await node.dataplane.list()) {
    const { hostInterface, owner } = link;
    if (owner === undefined) {
      await teardown.attempt(`remove ${hostInterface}, which an ADD that was killed left`, () => node.dataplane.remove(link));
      continue;
    }
    if (owner.network !== request.network || isListed(validAttachments, owner.containerId, owner.interfaceName)) continue;
    const isGone = await teardown.attempt(`remove the link ${hostInterface} of container ${owner.containerId}`, () =>
      node.dataplane.remove(link),
    );
    if (!isGone) kept.push({ containerID: owner.containerId, ifname: owner.interfaceName });
  }
  log.step("dataplane");

  if (!(await teardown.attempt("ask the cluster", () => assertClusterReady(call, node)))) return teardown.report();
  await teardown.attempt("release the addresses", () => collectAddresses(kept, call, node));
  log.step("ipam");
  if (call.traits.endpointsAre === "objects") {
    await teardown.attempt("remove the endpoints", () => collectEndpoints(kept, call, node));
    log.step("endpoint");
  }
  teardown.report();
}

async function collectAddresses(kept: readonly ValidAttachment[], call: NetworkCall, node: Node): Promise<void> {
  const { request, config } = call;
  const netconf = { ...request.netconf, "cni.dev/valid-attachments": kept.map((one) => ({ ...one })) };
  const input = { request: { ...request, netconf, stdin: encode(netconf) }, config: { ...config, validAttachments: kept } };
  await connectIpam(findIpam(request, config), input, call, node).run("GC");
}

async function collectEndpoints(kept: readonly ValidAttachment[], { request, nodeName }: NetworkCall, node: Node): Promise<void> {
  const { endpoints } = await node.datastore();
  const isOrphan = (endpoint: WorkloadEndpoint) =>
    endpoint.node === nodeName &&
    endpoint.profiles.length === 1 &&
    endpoint.profiles[0] === request.network &&
    !isListed(kept, endpoint.containerID, endpoint.endpoint);
  for (const { value, revision } of await endpoints.list()) {
    if (!isOrphan(value)) continue;
    try {
      await endpoints.delete({ namespace: value.namespace, name: value.name }, revision);
    } catch (error) {
      // Another process removed it, or a new sandbox took it over: either way it is no orphan any more.
      if (!isDatastoreFailure(error, "not-found", "conflict")) throw error;
    }
  }
}

function isListed(attachments: readonly ValidAttachment[], containerId: string, interfaceName: string): boolean {
  return attachments.some((one) => one.containerID === containerId && one.ifname === interfaceName);
}
