/**
 * Converts an endpoint to TortieEndpoint, its copy in the cluster (A§6.3), and back, and compares the two. An
 * object belongs to a pod, so of several endpoints of one pod one is shown.
 */
import type { EndpointRecord, RecordedAddress } from "../../handover/record.ts";
import { type Fields, section, text } from "../../lib/json/decode.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { sha256 } from "../../lib/system/hash.ts";
import type { NumberedLabels } from "../policy/identities/lookup.ts";

export const GROUP = "tortie.dev";
export const VERSION = "v1alpha1";
export const PLURAL = "tortieendpoints";
const KIND = "TortieEndpoint";

/** By it the agent lists and watches the objects of its own node. */
export const NODE_LABEL = `${GROUP}/node`;
/** Longest value of a label (Kubernetes, "Labels and Selectors"). */
const LONGEST_LABEL = 63;

/** What the object shows of an endpoint's state: builds come and go too often to be written (A§6.3). */
type ShownState = "ready" | "not-ready" | "waiting-for-identity";

/** An endpoint of a pod, committed and not being removed. */
export type ObjectEndpoint = Pick<EndpointRecord, "id" | "attachment" | "addresses" | "object" | "committedAt"> & {
  /** `<namespace>/<name>`. */
  readonly pod: string;
  readonly podUID: string;
  readonly state: ShownState;
  /** What was last found wrong and is not mended. */
  readonly problem?: string | undefined;
};

export interface NodeFacts {
  readonly name: string;
  /** The node's own address; left out where it is not known. */
  readonly address?: string | undefined;
}

/** The part of an object that is this agent's to write. */
export interface ObjectContent {
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: Fields;
  readonly state: ShownState;
  readonly problem?: string | undefined;
}

/** An object as the server has it. */
export interface StoredEndpoint {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly isDeleting: boolean;
  readonly spec: Fields;
  readonly state: string;
  /** Empty when there is none. */
  readonly problem: string;
}

/** Annotation of a static pod's copy at the API server: the UID that the runtime knows the pod by (kubelet, kubetypes). */
const MIRROR = "kubernetes.io/config.mirror";

/** Gives the object of a static pod to the present mirror: each time the kubelet makes one it has another UID. */
export function withPresentMirror(
  endpoint: ObjectEndpoint,
  { runtimePodUID }: Pick<EndpointRecord, "runtimePodUID">,
  pod: Pick<Pod, "uid" | "annotations"> | undefined,
): ObjectEndpoint {
  if (pod === undefined || runtimePodUID === undefined || pod.annotations[MIRROR] !== runtimePodUID) return endpoint;
  return { ...endpoint, podUID: pod.uid };
}

export function contentOf(
  endpoint: ObjectEndpoint,
  node: NodeFacts,
  pod: Pick<Pod, "ports"> | undefined,
  identity?: NumberedLabels,
): ObjectContent {
  const { id, attachment, addresses, podUID, state, problem } = endpoint;
  const [namespace = "", name = ""] = endpoint.pod.split("/");
  const ports = namedPorts(pod);
  return {
    labels: { [NODE_LABEL]: nodeLabel(node.name) },
    spec: {
      id,
      node: node.name,
      podUID,
      containerID: attachment.containerId,
      "external-identifiers": {
        "container-id": attachment.containerId,
        "interface-name": attachment.ifname,
        "k8s-namespace": namespace,
        "k8s-pod-name": name,
      },
      networking: { ...(node.address !== undefined && { node: node.address }), addressing: pairs(addresses) },
      addresses: addresses.map(({ address, family, grant, handle }) => ({
        address,
        family,
        grant,
        ...(handle !== undefined && { handle }),
      })),
      ...(ports.length > 0 && { "named-ports": ports }),
      // The number comes behind the object, and changes with the labels of pod and namespace.
      ...(identity !== undefined && identity.number !== 0 && { identity: { id: identity.number, labels: identity.labels } }),
    },
    state,
    problem,
  };
}

/** Returns the name of the node where it is legal as a value, else a digest of it. */
export function nodeLabel(node: string): string {
  return node.length <= LONGEST_LABEL ? node : sha256(node).slice(0, LONGEST_LABEL);
}

/** Makes the object to be created. */
export function newObject(endpoint: ObjectEndpoint, content: ObjectContent): Fields {
  const [namespace, name] = endpoint.pod.split("/");
  return {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: KIND,
    metadata: {
      name,
      namespace,
      labels: content.labels,
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name, uid: endpoint.podUID }],
    },
    spec: content.spec,
  };
}

/** @throws Error naming the field that is of the wrong type */
export function decodeStored(object: Fields): StoredEndpoint {
  const metadata = section(object, "metadata");
  const status = section(object, "status");
  const labels = section(metadata, "labels");
  return {
    namespace: text(metadata, "namespace"),
    name: text(metadata, "name"),
    uid: text(metadata, "uid"),
    resourceVersion: text(metadata, "resourceVersion"),
    labels: Object.fromEntries(Object.entries(labels).map(([key, value]) => [key, String(value)])),
    isDeleting: text(metadata, "deletionTimestamp") !== "",
    spec: section(object, "spec"),
    state: text(status, "state"),
    problem: text(status, "problem"),
  };
}

/** Makes the merge patch that corrects the stored object; `undefined` when it is right already. */
export function specPatch(stored: StoredEndpoint, { labels, spec }: ObjectContent): Fields | undefined {
  const isLabelled = Object.entries(labels).every(([key, value]) => stored.labels[key] === value);
  if (isLabelled && Bun.deepEquals(stored.spec, spec)) return undefined;
  const superfluous = Object.keys(stored.spec).filter((member) => !(member in spec));
  return {
    metadata: { resourceVersion: stored.resourceVersion, labels },
    spec: { ...Object.fromEntries(superfluous.map((member) => [member, null])), ...spec },
  };
}

/** Makes the merge patch of the status; `undefined` when it is right already, as that of a new object mostly is. */
export function statePatch(stored: StoredEndpoint, { state, problem }: ObjectContent): Fields | undefined {
  if (stored.state === state && stored.problem === (problem ?? "")) return undefined;
  return { metadata: { resourceVersion: stored.resourceVersion }, status: { state, problem: problem ?? null } };
}

/** Chooses which endpoint of a pod is shown: the pod's own interface, of the newest sandbox. */
export function shownEndpoint(endpoints: readonly ObjectEndpoint[]): ObjectEndpoint | undefined {
  return endpoints.toSorted((a, b) => rank(b) - rank(a) || newest(a, b) || b.id - a.id)[0];
}

function rank({ attachment }: ObjectEndpoint): number {
  return attachment.ifname === "eth0" ? 1 : 0;
}

function newest(a: ObjectEndpoint, b: ObjectEndpoint): number {
  return Date.parse(b.committedAt ?? "") - Date.parse(a.committedAt ?? "") || 0;
}

/** Pairs as CiliumEndpoint has them: the n-th address of each family together. */
function pairs(addresses: readonly RecordedAddress[]): readonly Fields[] {
  const of = (family: 4 | 6) => addresses.filter((entry) => entry.family === family).map(({ address }) => address);
  const [v4, v6] = [of(4), of(6)];
  return Array.from({ length: Math.max(v4.length, v6.length) }, (_, index) => ({
    ...(v4[index] !== undefined && { ipv4: v4[index] }),
    ...(v6[index] !== undefined && { ipv6: v6[index] }),
  }));
}

function namedPorts(pod: Pick<Pod, "ports"> | undefined): readonly Fields[] {
  return (pod?.ports ?? [])
    .filter(({ name }) => name !== "")
    .map(({ name, containerPort, protocol }) => ({ name, port: containerPort, protocol: protocol === "" ? "TCP" : protocol }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
