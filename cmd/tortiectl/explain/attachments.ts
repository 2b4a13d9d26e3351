/**
 * Finds the attachments of this host, with the agent's records or without: those of the plugins get one made of the link's alias, the
 * datastore and the network configuration, so that everything else treats all alike.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type AttachmentName, attachmentAlias, parseAttachmentAlias } from "../../../dataplane/alias.ts";
import { isDeviceKind } from "../../../dataplane/linux/ends.ts";
import { type Link, listLinks, namespaceIdOf } from "../../../dataplane/rtnetlink/link.ts";
import { listRoutes } from "../../../dataplane/rtnetlink/route.ts";
import { grantOf } from "../../../handover/add-journal.ts";
import { callText } from "../../../handover/call-body.ts";
import { decodeRecord, type EndpointRecord, NO_ID, RECORD_FILE } from "../../../handover/record.ts";
import { type RunDirectory, readBootId } from "../../../handover/run-directory.ts";
import { bitsOf, formatAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { lineKey } from "../../../lib/cni/attachment-id.ts";
import type { ResultCache } from "../../../lib/cni/runtime/cache.ts";
import { ifReadable } from "../../../lib/system/files.ts";
import { openNamespace } from "../../../lib/system/netns.ts";
import { Sandbox, seenOf } from "../../../lib/system/sandbox.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { workloadHandleId } from "../../../lib/workload/identity.ts";
import type { OwnList, Sources } from "./sources.ts";

export interface Known {
  readonly record: EndpointRecord;
  /** Says who keeps the record; `kernel` and `datastore`: it was made here. */
  readonly source: "agent" | "kernel" | "datastore";
  /** What the datastore has of it; `undefined` where it has nothing, or could not be asked. */
  readonly endpoint: WorkloadEndpoint | undefined;
  /** Whether the datastore could be asked: the plugins' account may not list pods. */
  readonly isAsked: boolean;
}

/** @param endpoints of this node, by the datastore; `undefined`: it could not be asked */
export function knownAttachments(sources: Sources, endpoints: readonly WorkloadEndpoint[] | undefined): readonly Known[] {
  const { run, host } = sources;
  const links = listLinks(host.route);
  const endpointOf = (containerId: string) => endpoints?.find((one) => one.containerID === containerId);
  const found = new Map<string, Known>();
  const isAsked = endpoints !== undefined;
  const enter = (known: Omit<Known, "isAsked">) => void found.set(lineKey(known.record.attachment), { ...known, isAsked });
  for (const record of recordsOfAgent(run)) enter({ record, source: "agent", endpoint: endpointOf(record.attachment.containerId) });
  for (const link of links) {
    const owner = parseAttachmentAlias(link.alias);
    if (owner === undefined || !isDeviceKind(link.kind) || found.has(lineKey(owner))) continue;
    const endpoint = endpointOf(owner.containerId);
    enter({ record: recordOfLink(sources, link, owner, endpoint), source: "kernel", endpoint });
  }
  const containers = new Set([...found.values()].map(({ record }) => record.attachment.containerId));
  for (const endpoint of endpoints ?? []) {
    if (endpoint.containerID === "" || containers.has(endpoint.containerID)) continue;
    enter({ record: recordOfEndpoint(sources, endpoint, links), source: "datastore", endpoint });
  }
  return [...found.values()];
}

/** Lists the agent's records that can be read; its own restore judges the rest. */
function recordsOfAgent({ path }: Pick<RunDirectory, "path">): readonly EndpointRecord[] {
  const state = join(path, "state");
  const ids = (ifReadable(() => readdirSync(state)) ?? []).filter((name) => /^[1-9]\d{0,4}$/.test(name));
  return ids.flatMap((id) => ifReadable(() => decodeRecord(readFileSync(join(state, id, RECORD_FILE), "utf8"))) ?? []);
}

/** Lists what the datastore records of this node. @returns `undefined` when it cannot be asked */
export async function endpointsHere({ store, node }: Sources): Promise<readonly WorkloadEndpoint[] | undefined> {
  if (store === undefined) return undefined;
  try {
    const all = await store.datastore.endpoints.list();
    return all.map(({ value }) => value).filter((endpoint) => endpoint.node === node || endpoint.node === "");
  } catch {
    return undefined;
  }
}

function recordOfLink(sources: Sources, link: Link, owner: AttachmentName, endpoint: WorkloadEndpoint | undefined): EndpointRecord {
  const pod = owner.workload ?? podOf(endpoint);
  const [routed, recorded] = [routedTo(sources, link), endpoint === undefined ? [] : addressesOf(endpoint)];
  // Annotations of a pod may say anything; a route that is gone is what the record is for.
  const addresses = routed.length >= recorded.length ? routed : recorded;
  const record = recordWith(sources, { owner, pod, addresses, netns: netnsOf(sources, owner, link), mac: endpoint?.mac });
  return { ...record, hostInterface: { name: link.name, index: link.index, alias: link.alias } };
}

/** Makes the record of what only the datastore knows: its link is gone, or has lost its owner's name. */
function recordOfEndpoint(sources: Sources, endpoint: WorkloadEndpoint, links: readonly Link[]): EndpointRecord {
  const network = sources.lists[0]?.list.name ?? endpoint.profiles[0] ?? "";
  const pod = podOf(endpoint);
  const owner = { network, containerId: endpoint.containerID, ifname: endpoint.endpoint, ...(pod !== undefined && { workload: pod }) };
  const link = links.find(({ name, kind, alias }) => name === endpoint.interfaceName && isDeviceKind(kind) && alias === "");
  const netns = netnsOf(sources, owner, link);
  const record = recordWith(sources, { owner, pod, addresses: addressesOf(endpoint), netns, mac: endpoint.mac });
  return { ...record, hostInterface: { name: endpoint.interfaceName, index: link?.index, alias: attachmentAlias(owner) } };
}

function podOf(endpoint: WorkloadEndpoint | undefined): string | undefined {
  return endpoint === undefined || endpoint.pod === "" ? undefined : `${endpoint.namespace}/${endpoint.pod}`;
}

function addressesOf({ ipNetworks }: WorkloadEndpoint): readonly string[] {
  return ipNetworks.flatMap((text) => parsePrefix(text)?.address ?? []).map(formatAddress);
}

/** Lists the single addresses to which a route leads through the link. */
function routedTo({ host }: Sources, { index }: Link): readonly string[] {
  return ([4, 6] as const)
    .flatMap((family) => listRoutes(host.route, family, index))
    .filter(({ destination: { address, length } }) => length === bitsOf(address.family))
    .map(({ destination }) => formatAddress(destination.address));
}

interface Parts {
  readonly owner: AttachmentName;
  readonly pod: string | undefined;
  readonly addresses: readonly string[];
  readonly netns: EndpointRecord["netns"];
  readonly mac: string | undefined;
}

function recordWith(sources: Sources, { owner, pod, addresses, netns, mac }: Parts): EndpointRecord {
  const { network, containerId, ifname } = owner;
  const own = sources.lists.find(({ list }) => list.name === network);
  const grant = own === undefined ? "external" : grantOf(own.config);
  return {
    id: NO_ID,
    phase: "ready",
    bootId: readBootId(),
    attachment: { network, containerId, ifname },
    ...(pod !== undefined && { pod }),
    netns,
    podInterface: ifname,
    ...(mac !== undefined && mac !== "" && { podMac: mac }),
    linkForm: own?.config.linkForm === "endpoint" ? "endpoint" : "routed",
    addresses: addresses.map((address) => ({
      address,
      family: address.includes(":") ? 6 : 4,
      grant,
      ...(grant === "block" && { handle: workloadHandleId(network, containerId) }),
    })),
    ...(own !== undefined && { request: requestOf(sources, own, owner, pod, netns.path) }),
    createdAt: "",
    updatedAt: "",
  };
}

/** Makes the call that the runtime made, of the configuration as it is now. */
function requestOf(
  { cache }: Sources,
  { list, netconf }: OwnList,
  { containerId, ifname }: AttachmentName,
  pod: string | undefined,
  path: string,
) {
  const [namespace, name] = pod?.split("/") ?? [];
  const cached = cachedOf(cache, { network: list.name, containerId, ifname });
  const args = cached?.args ?? (name === undefined ? "" : `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name}`);
  const text = JSON.stringify(netconf);
  const env = {
    ...process.env,
    CNI_CONTAINERID: containerId,
    CNI_IFNAME: ifname,
    CNI_NETNS: path,
    CNI_ARGS: args,
    CNI_PATH: "/opt/cni/bin",
  };
  const call = callText({ command: "ADD", env, text, stdin: new TextEncoder().encode(text), netns: { path }, ownIpam: true });
  return { digest: "", configDigest: "", cniVersion: list.cniVersion, call };
}

/** Returns the attachment as the runtime keeps it. */
function cachedOf(cache: ResultCache, { network, containerId, ifname }: AttachmentName) {
  const attachment = { containerId, interfaceName: ifname, netns: "", args: undefined, capabilityArgs: undefined };
  return ifReadable(() => cache.get(network, attachment))?.attachment;
}

/** Makes the record of no attachment, for what a network needs of the host itself. */
export function recordOfNetwork(sources: Sources, { list }: OwnList): EndpointRecord {
  const owner = { network: list.name, containerId: "none", ifname: "eth0" };
  return recordWith(sources, { owner, pod: undefined, addresses: [], netns: { path: "" }, mac: undefined });
}

const NAMESPACE_DIRECTORIES = ["/run/netns", "/run/docker/netns"];

/** Finds the sandbox: by the runtime's own file, else as the namespace in which the kernel says the other end of the link is. */
function netnsOf(sources: Sources, owner: AttachmentName, link: Link | undefined): EndpointRecord["netns"] {
  const cached = cachedOf(sources.cache, owner)?.netns;
  const candidates = [...(cached === undefined || cached === "" ? [] : [cached]), ...namespacePaths()];
  const path =
    link === undefined
      ? cached
      : link.peer === undefined
        ? undefined
        : candidates.find((one) => leadsTo(sources, one, link.peer?.namespaceId));
  if (path === undefined || path === "") return { path: "" };
  // Without the link nothing proves that the path still leads to the sandbox of that time.
  if (link === undefined) return { path };
  const seen = ifReadable(() => {
    using sandbox = Sandbox.named(path);
    return seenOf(sandbox);
  });
  return seen === undefined ? { path } : { ...seen, isVisible: true };
}

function leadsTo({ host }: Sources, path: string, id: number | undefined): boolean {
  const found = ifReadable(() => {
    using namespace = openNamespace(path);
    return namespaceIdOf(host.route, namespace.fd);
  });
  return found !== undefined && found === id;
}

function namespacePaths(): readonly string[] {
  const named = NAMESPACE_DIRECTORIES.flatMap((directory) =>
    (ifReadable(() => readdirSync(directory)) ?? []).map((name) => join(directory, name)),
  );
  const ofProcesses = (ifReadable(() => readdirSync("/proc")) ?? [])
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => `/proc/${pid}/ns/net`);
  return [...named, ...ofProcesses];
}
