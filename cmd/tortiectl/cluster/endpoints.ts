/**
 * Runs `kubectl tortie endpoints`: every pod with a network of its own, with what its node's agent says of it. A cluster whose agents write
 * no TortieEndpoint (`--endpoint-objects`) has the same list without the agents' part.
 */

import { type Fields, number, objects, section, text } from "../../../lib/json/decode.ts";
import { decodePod, type Pod } from "../../../lib/kubernetes/objects.ts";
import type { PodDocument } from "../../../ui/contract.ts";
import { columns, type Output, oneLine, printsDocument, type Terminal } from "../terminal.ts";
import { type Cluster, type ClusterOptions, endpointObjects, listIfAny, openCluster } from "./access.ts";

export interface EndpointsOptions extends ClusterOptions {
  /** `undefined`: the context's. */
  readonly namespace: string | undefined;
  readonly allNamespaces: boolean;
  readonly output: Output;
}

/** Is a pod as this command shows it. */
export interface ShownEndpoint extends PodDocument {
  /** Number on its node. */
  readonly endpoint?: number;
  readonly identity?: number;
  readonly containerId?: string;
}

/** @returns exit status */
export async function endpoints(options: EndpointsOptions, terminal: Terminal): Promise<number> {
  using cluster = openCluster(options);
  const namespace = options.allNamespaces ? undefined : (options.namespace ?? cluster.namespace);
  const found = await readEndpoints(cluster, namespace);
  if (await printsDocument(terminal, options.output, () => JSON.stringify(found, undefined, 2))) return 0;
  const rows = rowsOf(found, { isWide: options.output === "wide", hasNamespaces: namespace === undefined, now: Date.now() });
  for (const line of columns(rows, "")) terminal.out(oneLine(line));
  if (found.length === 0) terminal.err(namespace === undefined ? "no pods" : `no pods in namespace ${namespace}; -A shows all`);
  return 0;
}

/** @param namespace `undefined`: all of them */
export async function readEndpoints(cluster: Cluster, namespace: string | undefined): Promise<readonly ShownEndpoint[]> {
  const within = namespace === undefined ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
  const [pods, stored, events] = [
    await cluster.list(`/api/v1${within}/pods`),
    await listIfAny(cluster, endpointObjects(within)),
    await listIfAny(cluster, `/api/v1${within}/events`, { fieldSelector: "reason=NetworkAttachFailed" }),
  ];
  return shownEndpoints(pods, stored, events);
}

/** Joins pods with what the agents wrote of them. Lists in the order of namespaces and names. */
export function shownEndpoints(pods: readonly Fields[], stored: readonly Fields[], events: readonly Fields[]): readonly ShownEndpoint[] {
  const byPod = new Map(stored.map((object) => [text(section(object, "spec"), "podUID"), object]));
  const failures = new Map(
    events
      .toSorted((a, b) => (text(a, "lastTimestamp") < text(b, "lastTimestamp") ? -1 : 1))
      .map((event) => [text(section(event, "involvedObject"), "uid"), text(event, "message")]),
  );
  return pods
    .map((pod) => decodePod(pod))
    .filter((pod) => !pod.isHostNetwork && pod.nodeName !== "" && pod.phase !== "Succeeded" && pod.phase !== "Failed")
    .map((pod) => shown(pod, byPod.get(pod.uid), failures.get(pod.uid)));
}

function shown(pod: Pod, object: Fields | undefined, failure: string | undefined): ShownEndpoint {
  const own = { namespace: pod.namespace, pod: pod.name, node: pod.nodeName, since: pod.creationTimestamp };
  if (object === undefined) {
    const hasAddress = pod.podIPs.length > 0;
    const problem = hasAddress ? undefined : failure;
    return { ...own, state: hasAddress ? "attached" : "waiting", addresses: pod.podIPs, ...(problem !== undefined && { problem }) };
  }
  const [spec, status] = [section(object, "spec"), section(object, "status")];
  const identity = number(section(spec, "identity"), "id");
  const problem = text(status, "problem");
  return {
    ...own,
    state: text(status, "state"),
    addresses: objects(spec, "addresses").map((entry) => text(entry, "address")),
    ...(problem !== "" && { problem }),
    endpoint: number(spec, "id"),
    ...(identity !== 0 && { identity }),
    containerId: text(spec, "containerID"),
  };
}

interface Columns {
  readonly isWide: boolean;
  readonly hasNamespaces: boolean;
  /** Milliseconds since 1970. */
  readonly now: number;
}

function rowsOf(found: readonly ShownEndpoint[], { isWide, hasNamespaces, now }: Columns): readonly (readonly string[])[] {
  const head = [
    ...(hasNamespaces ? ["NAMESPACE"] : []),
    ...["POD", "NODE", "STATE", "ADDRESSES", "AGE"],
    ...(isWide ? ["ENDPOINT", "IDENTITY", "CONTAINER"] : []),
    "PROBLEM",
  ];
  const rows = found.map((one) => [
    ...(hasNamespaces ? [one.namespace] : []),
    ...[one.pod, one.node, one.state, one.addresses.join(",") || "-", ageText(now - Date.parse(one.since))],
    ...(isWide ? [String(one.endpoint ?? "-"), String(one.identity ?? "-"), one.containerId?.slice(0, 12) ?? "-"] : []),
    one.problem ?? "",
  ]);
  return [head, ...rows];
}

/** Writes a time as kubectl does, in its largest unit alone: "45s", "12m", "3h", "9d". */
export function ageText(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (Number.isNaN(seconds)) return "-";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}
