/** Looks at one attachment: its links, routes, settings and rules in the kernel, compared with its record, and its DEL where that waits. */

import type { EndpointModel } from "../../../agent/api/endpoint-schema.ts";
import { resolveCall } from "../../../agent/attachments/call.ts";
import { isSandboxGone, openRecorded } from "../../../agent/endpoints/sandbox.ts";
import type { Dataplane } from "../../../dataplane/dataplane.ts";
import type { DesiredState, Difference, Route } from "../../../dataplane/desired-state.ts";
import { openSite } from "../../../dataplane/linux/ends.ts";
import { readSysctl } from "../../../dataplane/linux/sysctl.ts";
import { getLink, type Link, listLinks } from "../../../dataplane/rtnetlink/link.ts";
import { listRoutes } from "../../../dataplane/rtnetlink/route.ts";
import type { ExplainedAttachment, ExplainedEnd, ExplainedMtu, ExplainedRoute } from "../../../doctor/explain/explanation.ts";
import type { AttachmentFacts, SandboxStanding } from "../../../doctor/explain/facts.ts";
import { parseCall } from "../../../handover/call-body.ts";
import { DeleteQueueFiles } from "../../../handover/delete-queue-files.ts";
import type { EndpointRecord } from "../../../handover/record.ts";
import { formatAddress, formatPrefix, hostPrefix, parseAddress } from "../../../lib/addresses/address.ts";
import { fileKey } from "../../../lib/cni/attachment-id.ts";
import type { KubernetesCore } from "../../../lib/datastore/datastore.ts";
import { messageOf } from "../../../lib/errors/errors.ts";
import { isThere } from "../../../lib/system/files.ts";
import type { Sandbox } from "../../../lib/system/sandbox.ts";
import { ANNOTATION_PREFIX } from "../../../lib/workload/annotations/annotation.ts";
import { resolveAddCall } from "../../../main-plugin/call.ts";
import { planAttachment } from "../../../main-plugin/plan.ts";
import { routersFor } from "../../../main-plugin/plan-endpoint-form.ts";
import { desiredStateOf } from "../../../main-plugin/plan-routed-form.ts";
import type { Known } from "./attachments.ts";
import type { Rules } from "./rules.ts";
import type { Sources } from "./sources.ts";

/** @returns the record with what its link should be, where that can be said */
export async function withDesired(record: EndpointRecord, sources: Pick<Sources, "hosts">): Promise<EndpointRecord> {
  const text = record.request?.call;
  if (record.desired !== undefined || text === undefined || record.linkForm === "attached") return record;
  try {
    const served = resolveCall(parseCall(text, "CHECK"), { hosts: sources.hosts });
    const call = resolveAddCall(served.call);
    const addresses = record.addresses.flatMap(({ address }) => parseAddress(address) ?? []).map(hostPrefix);
    const desired = desiredStateOf(planAttachment(call, undefined, await routersFor(call, served.host)), addresses, true);
    const name = record.hostInterface?.name ?? desired.host.name;
    return { ...record, desired: { ...desired, host: { ...desired.host, name } } };
  } catch {
    // Without it the kernel is shown and not judged.
    return record;
  }
}

/** Lists the addresses that the runtime asked for, as the call of its ADD says. */
function requestedOf({ request }: EndpointRecord, { hosts }: Pick<Sources, "hosts">): readonly string[] {
  if (request?.call === undefined) return [];
  try {
    const { call } = resolveCall(parseCall(request.call, "CHECK"), { hosts });
    return resolveAddCall(call).requested.addresses.map(formatAddress);
  } catch {
    // A call that is no longer valid asks for nothing that could be told.
    return [];
  }
}

export async function look(known: Known, agent: EndpointModel | undefined, rules: Rules, sources: Sources): Promise<AttachmentFacts> {
  const record = await withDesired(known.record, sources);
  const link = record.hostInterface && getLink(sources.host.route, { name: record.hostInterface.name });
  const standing = sandboxOf(record, link);
  const seen = standing === "there" ? await within(record, sources) : { differences: undefined, podLink: undefined };
  const waits = waitsSince(record, sources);
  const stored = await storedOf(known, sources);
  const { annotations, ofNamespace } = stored;
  const addresses = record.addresses.map(({ address }) => address);
  const policy = link && rules.policyOf(link.name, addresses);
  return {
    shown: shownOf({ ...known, record }, { link, agent, rules, sources, annotations, ...seen }),
    differences: standing === "there" ? seen.differences : undefined,
    ...(seen.uncompared !== undefined && { uncompared: seen.uncompared }),
    sandbox: standing,
    recordDifferences: recordDifferences({ ...known, record }, stored, sources),
    ...(waits !== undefined && { deletionWaitsSince: waits }),
    ...(policy !== undefined && { policy }),
    requested: requestedOf(record, sources),
    ...(ofNamespace !== undefined && { ofNamespace }),
  };
}

function sandboxOf(record: EndpointRecord, link: Link | undefined): SandboxStanding {
  const { path, dev } = record.netns;
  if (path !== "" && dev !== undefined && isSandboxGone({ netns: { ...record.netns, isVisible: true } })) return "gone";
  if (path !== "" && dev !== undefined) return "there";
  if (link !== undefined) return "unknown";
  // A pair goes with the sandbox that one of its ends is in; a path that is there again proves nothing.
  return path !== "" && !isThere(path) ? "gone" : "lost";
}

interface Seen {
  readonly differences: readonly Difference[] | undefined;
  readonly uncompared?: string;
  readonly podLink: Link | undefined;
}

async function within(record: EndpointRecord, { host, dataplane }: Sources): Promise<Seen> {
  try {
    using sandbox = openRecorded(record);
    using site = openSite(host, sandbox);
    const podLink = getLink(site.podSocket, { name: record.podInterface });
    const { desired } = record;
    if (desired === undefined)
      return { differences: undefined, uncompared: "no record and no network configuration says what it should be", podLink };
    return { differences: await compare(sandbox, record, desired, dataplane), podLink };
  } catch (error) {
    return { differences: undefined, uncompared: messageOf(error), podLink: undefined };
  }
}

/** Joins what the agent mends with what a CHECK finds, which also looks inside. */
async function compare(
  sandbox: Sandbox,
  { podMac, hostInterface }: EndpointRecord,
  desired: DesiredState,
  dataplane: Pick<Dataplane, "drift" | "inspect">,
): Promise<readonly Difference[]> {
  const drift = await dataplane.drift(sandbox, { desired, hostIndex: hostInterface?.index });
  const inspected = await dataplane.inspect(sandbox, desired, { mac: podMac });
  return [...drift, ...inspected.filter(({ side, object }) => !drift.some((one) => one.side === side && one.object === object))];
}

interface Looked extends Seen {
  readonly link: Link | undefined;
  readonly agent: EndpointModel | undefined;
  readonly rules: Rules;
  readonly sources: Sources;
  readonly annotations: Stored["annotations"];
}

function shownOf({ record, source }: Known, looked: Looked): ExplainedAttachment {
  const { attachment, pod, netns, desired, addresses, committedAt, hostInterface, podInterface } = record;
  const { link, podLink, agent, rules, sources } = looked;
  const uplink = uplinkOf(sources);
  const mtu: ExplainedMtu = {
    ...(link !== undefined && { hostEnd: link.mtu }),
    ...(podLink !== undefined && { podEnd: podLink.mtu }),
    ...(uplink !== undefined && { uplink: { name: uplink.name, mtu: uplink.mtu } }),
  };
  return {
    network: attachment.network,
    containerId: attachment.containerId,
    ifname: attachment.ifname,
    ...(pod !== undefined && { pod }),
    ...(agent !== undefined && { endpoint: agent.id }),
    state: agent?.status.state ?? (source === "agent" ? `recorded by the agent, phase ${record.phase}` : `seen in the ${source}`),
    ...(committedAt !== undefined && { since: committedAt }),
    addresses: addresses.map(({ address }) => address),
    ...(hostInterface !== undefined && { hostEnd: endOf(hostInterface.name, link) }),
    podEnd:
      looked.differences === undefined && podLink === undefined ? { name: podInterface, state: "unknown" } : endOf(podInterface, podLink),
    ...(netns.path !== "" && { netns: netns.path }),
    routes: desired === undefined || link === undefined ? [] : routesOf(desired, looked.differences),
    sysctls: (link === undefined ? [] : (desired?.host.sysctls ?? [])).map(({ path, value }) => ({
      path,
      wanted: value,
      found: readSysctl(path) ?? "missing",
    })),
    rules: rules.of(hostInterface?.name ?? ""),
    annotations: looked.annotations,
    mtu,
    chained: rules.chainedOf(attachment),
  };
}

function endOf(name: string, link: Link | undefined): ExplainedEnd {
  if (link === undefined) return { name, state: "missing" };
  return { name, index: link.index, mac: link.mac, mtu: link.mtu, state: link.isUp ? "up" : "down" };
}

function routesOf({ host, pod }: DesiredState, differences: readonly Difference[] = []): readonly ExplainedRoute[] {
  const shown = (side: "host" | "pod", device: string) => (route: Route) => {
    const object = `route ${formatPrefix(route.destination)}`;
    const found = differences.find((one) => one.side === side && one.object === object)?.found;
    const via = route.gateway === undefined ? "" : ` via ${formatAddress(route.gateway)}`;
    return { side, wanted: `${formatPrefix(route.destination)}${via} dev ${device}`, ...(found !== undefined && { found }) };
  };
  return [...host.routes.map(shown("host", host.name)), ...pod.routes.map(shown("pod", pod.name))];
}

/** Returns the link by which the host reaches others: that of its default route, the one with the smallest MTU where there are several. */
function uplinkOf({ host }: Sources): Link | undefined {
  const indexes = ([4, 6] as const)
    .flatMap((family) => listRoutes(host.route, family))
    .filter(({ destination }) => destination.length === 0);
  const links = listLinks(host.route).filter(({ index }) => indexes.some((route) => route.index === index));
  return links.sort((one, other) => one.mtu - other.mtu)[0];
}

function waitsSince({ attachment }: EndpointRecord, { run }: Sources): string | undefined {
  const queue = new DeleteQueueFiles(run.deleteQueue);
  const entry = queue.find(fileKey(attachment));
  return entry === undefined ? undefined : new Date(entry.queuedAt).toISOString();
}

interface Stored {
  /** What the record itself says: in a cluster the annotations, whatever kubelet has published. */
  readonly networks: readonly string[] | undefined;
  /** Of the pod, those of its network. */
  readonly annotations: Readonly<Record<string, string>>;
  /** The same of the pod's namespace; absent: the account may not read it. */
  readonly ofNamespace?: Readonly<Record<string, string>> | undefined;
}

async function storedOf({ record, endpoint }: Known, { store }: Sources): Promise<Stored> {
  const nothing = { networks: endpoint?.ipNetworks, annotations: {} };
  if (store === undefined) return nothing;
  const { records, core } = store.datastore;
  const [namespace = "", pod] = record.pod?.split("/") ?? [];
  try {
    const stored = endpoint && (await records.read({ namespace: endpoint.namespace, name: endpoint.name }));
    const found = pod === undefined ? undefined : await core?.pod({ namespace, name: pod });
    const ofNamespace = pod === undefined || core === undefined ? {} : await annotationsOf(namespace, core);
    return { networks: stored?.ipNetworks ?? [], annotations: ofNetworks(found?.annotations ?? {}), ofNamespace };
  } catch {
    // The account may not read the pod.
    return nothing;
  }
}

async function annotationsOf(namespace: string, core: KubernetesCore): Promise<Stored["ofNamespace"]> {
  try {
    return ofNetworks((await core.namespace(namespace))?.annotations ?? {});
  } catch {
    // The account may not read namespaces.
    return undefined;
  }
}

function ofNetworks(annotations: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => key.startsWith(ANNOTATION_PREFIX)));
}

/** Compares what the datastore's record, in a cluster the pod's annotations, says with what the attachment has. */
function recordDifferences(
  { record, endpoint, source, isAsked }: Known,
  { networks = [] }: Stored,
  { store }: Sources,
): readonly string[] | undefined {
  const { linkForm, addresses, attachment, phase } = record;
  if (store === undefined || !isAsked || linkForm === "attached" || phase !== "ready" || source === "datastore") return undefined;
  if (endpoint === undefined) return [`the datastore has no record of container ${attachment.containerId}: policy and GC take it for gone`];
  const sorted = (texts: readonly string[]) => [...texts].sort().join(", ");
  const wanted = sorted(addresses.map(({ address }) => address));
  const found = sorted(networks.map((text) => text.replace(/\/\d+$/, "")));
  return wanted === found ? [] : [`the datastore's record says ${found || "no address"}, wanted ${wanted}`];
}
