/**
 * Serves CNI GC: removes what belongs to attachments of this network and node that the runtime no longer knows (CNI 1.1.0): links first,
 * then addresses, then records. Goes on after errors; the address of a link that could not be removed is kept (design, invariant 3).
 *
 * Records kept as annotations of pods are cleared by the IPAM plugin: only the addresses say which pods they were given to, and a
 * plugin may not list pods (C§8.2).
 */
import type { AttachedLink } from "../dataplane/dataplane.ts";
import type { IpamCall } from "../ipam-plugin/call.ts";
import { isListed } from "../lib/cni/attachment-id.ts";
import type { ValidAttachment } from "../lib/cni/protocol.ts";
import { attachmentsToKeep } from "../lib/config/decode.ts";
import { succeeds } from "../lib/datastore/errors.ts";
import { SYSTEM_CLOCK } from "../lib/system/waiting.ts";
import type { WorkloadEndpoint } from "../lib/workload/endpoint.ts";
import type { NetworkCall } from "./call.ts";
import { Teardown } from "./del.ts";
import { encode } from "./delegates.ts";
import { findIpam } from "./find-ipam.ts";
import { assertClusterReady } from "./gates.ts";
import type { Host } from "./host.ts";
import { connectIpam } from "./ipam-source.ts";

/** Between two looks at a link without owner; an ADD gives it one within a millisecond, if the machine lets it run. */
const UNFINISHED_PAUSE_MS = 2_000;

export async function gc(call: NetworkCall, host: Host): Promise<void> {
  const { request, config, log, collection } = call;
  const validAttachments = attachmentsToKeep(config);
  const teardown = new Teardown(log);
  const kept = [...validAttachments];
  const unplugged: string[] = [];
  const links = await host.dataplane.list();
  for (const link of links) {
    const { hostInterface, owner } = link;
    if (owner === undefined || owner.network !== request.network) continue;
    if (isListed(validAttachments, owner)) continue;
    let isGone = false;
    await teardown.attempt(`remove the link ${hostInterface} of container ${owner.containerId}`, async () => {
      isGone = await collection.remove(owner, async () => void (await host.dataplane.remove(link)));
    });
    if (isGone) unplugged.push(owner.containerId);
    else kept.push({ containerID: owner.containerId, ifname: owner.ifname });
  }
  await removeUnfinished(links.filter(isUnfinished), call, host, teardown);
  log.step("dataplane");

  if (!(await teardown.attempt("ask the cluster", () => assertClusterReady(call, host)))) return teardown.report();
  await teardown.attempt("release the addresses", () => collectAddresses([...kept, ...collection.inUse()], { ...call, unplugged }, host));
  log.step("ipam");
  if (call.traits.endpointsAre === "objects") {
    await teardown.attempt("remove the endpoints", () => collectEndpoints(kept, call, host));
    log.step("endpoint");
  }
  teardown.report();
}

/**
 * Removes links without owner that are still there, and still without owner, at a second look. Such a link is what a killed ADD left, or
 * what a running one has in its first milliseconds, in whichever process.
 */
async function removeUnfinished(seen: readonly AttachedLink[], { signal }: NetworkCall, host: Host, teardown: Teardown): Promise<void> {
  if (seen.length === 0) return;
  await SYSTEM_CLOCK.sleep(UNFINISHED_PAUSE_MS, signal);
  signal.throwIfAborted();
  for (const link of (await host.dataplane.list()).filter(isUnfinished)) {
    if (!seen.some(({ index }) => index === link.index)) continue;
    await teardown.attempt(`remove ${link.hostInterface}, which an ADD that was killed left`, () => host.dataplane.remove(link));
  }
}

function isUnfinished({ owner }: AttachedLink): boolean {
  return owner === undefined;
}

async function collectAddresses(
  kept: readonly ValidAttachment[],
  call: NetworkCall & Pick<IpamCall, "unplugged">,
  host: Host,
): Promise<void> {
  const { request, config } = call;
  const netconf = { ...request.netconf, "cni.dev/valid-attachments": kept.map((one) => ({ ...one })) };
  const input = { request: { ...request, netconf, stdin: encode(netconf) }, config: { ...config, validAttachments: kept } };
  await connectIpam(findIpam(request, config), input, call, host).run("GC");
}

async function collectEndpoints(kept: readonly ValidAttachment[], call: NetworkCall, host: Host): Promise<void> {
  const { request, nodeName, collection } = call;
  const { endpoints } = await host.datastore();
  const isOrphan = (endpoint: WorkloadEndpoint) =>
    endpoint.node === nodeName &&
    endpoint.profiles.length === 1 &&
    endpoint.profiles[0] === request.network &&
    !isListed(kept, { containerId: endpoint.containerID, ifname: endpoint.endpoint });
  for (const { value, revision } of await endpoints.list()) {
    if (!isOrphan(value)) continue;
    const remove = () => endpoints.delete({ namespace: value.namespace, name: value.name }, revision);
    const owner = { containerId: value.containerID, ifname: value.endpoint };
    // Another process removes it, or a new sandbox takes it over: either way it is not an orphan any more.
    await succeeds(() => collection.remove(owner, remove), "not-found", "conflict");
  }
}
