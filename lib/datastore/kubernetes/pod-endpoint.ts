/**
 * Shows the endpoint that a pod is (C§7.5): on the Kubernetes datastore a workload endpoint has no object of its own, it is a view of its
 * pod. Exactly one a pod, always called `eth0`, without a MAC, which the annotations do not hold.
 */
import { TortieError } from "../../errors/errors.ts";
import { parseObject } from "../../json/decode.ts";
import { type ContainerPort, decodePod, type NamespacedName, type Pod, preconditionsOf, revisionOf } from "../../kubernetes/objects.ts";
import { addressesOfPod, presentNats } from "../../workload/annotations/pod-addresses.ts";
import { annotatedSourcePrefixes } from "../../workload/annotations/requests.ts";
import type { EndpointKey, EndpointPort, QosControls, WorkloadEndpoint } from "../../workload/endpoint.ts";
import { endpointLabels, podProfiles } from "../../workload/endpoint.ts";
import { hostInterfaceNameIfAny, POD_ENDPOINT, workloadEndpointName } from "../../workload/names.ts";
import { qosControlsOf } from "../../workload/qos-controls.ts";
import type { OnDamaged } from "../calico/stored-kind.ts";
import type { Versioned, WorkloadEndpoints } from "../datastore.ts";
import { DatastoreError } from "../errors.ts";
import type { ApiCore } from "./api-core.ts";
import { annotatingPatch, blankingPatch, CONTAINER_ID, missing, patchPod, podOf } from "./pod-record.ts";

const ORCHESTRATOR = "k8s";
/** Written by Multus; passed on as it is (C§3.1). */
const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

export interface ConvertedPod {
  readonly endpoint: WorkloadEndpoint;
  /** Annotations that cannot be read, each naming pod, annotation and value; what they ask for is not in the endpoint. */
  readonly problems: readonly TortieError[];
  /** Limits of QoS that were changed or dropped; they never fail anything (recording qos). */
  readonly warnings: readonly string[];
}

/**
 * Scheduled, and in a network namespace of its own. Calico's plugin does not ask for this on ADD (recordings pod-hostnetwork,
 * pod-other-node).
 */
export function isEndpointPod(pod: Pick<Pod, "nodeName" | "isHostNetwork">): boolean {
  return pod.nodeName !== "" && !pod.isHostNetwork;
}

/** Makes the endpoint of what can be read. @throws TortieError `identity-invalid` when the pod is on no node: it has no name then */
export function convertPod(pod: Pod, interfacePrefix?: string): ConvertedPod {
  assertScheduled(pod);
  const { namespace, nodeName: node, name, serviceAccountName } = pod;
  const identity = { orchestrator: ORCHESTRATOR, node, namespace, pod: name, containerId: "", endpoint: POD_ENDPOINT } as const;
  const { networks, isClaimed, problems: addressProblems } = addressesOfPod(pod);
  const nats = readable(() => presentNats(pod, networks));
  const prefixes = readable(() => annotatedSourcePrefixes(pod));
  const { controls, warnings } = qosControlsOf(pod.annotations);
  const endpoint: WorkloadEndpoint = {
    name: workloadEndpointName(identity),
    namespace,
    labels: { ...pod.labels, ...endpointLabels(namespace, ORCHESTRATOR, serviceAccountName) },
    orchestrator: ORCHESTRATOR,
    node,
    containerID: pod.annotations[CONTAINER_ID] ?? "",
    pod: name,
    endpoint: POD_ENDPOINT,
    serviceAccountName,
    generateName: pod.generateName,
    ipNetworks: networks,
    ipNATs: nats.value,
    profiles: podProfiles(namespace, serviceAccountName),
    interfaceName: hostInterfaceNameIfAny(identity, interfacePrefix),
    mac: "",
    ports: endpointPorts(pod.ports),
    allowSpoofedSourcePrefixes: prefixes.value,
    ...(isClaimed ? { isClaimed } : {}),
    ...optionalParts(pod, controls),
  };
  return { endpoint, problems: [...addressProblems, ...prefixes.problems, ...nats.problems], warnings };
}

/** @throws TortieError `identity-invalid` when the pod is on no node */
export function assertScheduled({ nodeName, namespace, name }: Pod): void {
  if (nodeName !== "") return;
  const problem = `error with field node (field should be assigned): pod ${namespace}/${name} is on no node yet`;
  throw new TortieError("identity-invalid", problem, { next: "wait until the scheduler has chosen a node; spec.nodeName names it" });
}

function optionalParts(pod: Pod, qosControls: QosControls | undefined): Pick<WorkloadEndpoint, "annotations" | "qosControls"> {
  const status = pod.annotations[NETWORK_STATUS];
  return {
    ...(status === undefined ? {} : { annotations: { [NETWORK_STATUS]: status } }),
    ...(qosControls === undefined ? {} : { qosControls }),
  };
}

/** Picks those with a number and either a name or a port of the host, of a protocol that policy knows. */
export function endpointPorts(ports: readonly ContainerPort[]): readonly EndpointPort[] {
  return ports.flatMap(({ name, protocol, containerPort, hostPort, hostIP }) => {
    const known = protocol === "" ? "TCP" : protocol;
    if (containerPort === 0 || (name === "" && hostPort === 0) || !["TCP", "UDP", "SCTP"].includes(known)) return [];
    return [{ name, protocol: known, port: containerPort, hostPort, hostIP }];
  });
}

/** Runs a reader: gives its value, or the problem that it threw. */
function readable<T>(read: () => readonly T[]): { readonly value: readonly T[]; readonly problems: readonly TortieError[] } {
  try {
    return { value: read(), problems: [] };
  } catch (error) {
    if (error instanceof TortieError) return { value: [], problems: [error] };
    throw error;
  }
}

/** Serves workload endpoints, which in Kubernetes are a view of pods (C§7.5, C§7.6): annotations are all that is written of them. */
export class PodEndpoints implements WorkloadEndpoints {
  readonly #core: ApiCore;
  readonly #onDamaged: OnDamaged;
  readonly #interfacePrefix: string | undefined;

  /** @param interfacePrefix of host interfaces, `cali` when absent (C§4.1) */
  constructor(core: ApiCore, onDamaged: OnDamaged = () => {}, interfacePrefix?: string) {
    this.#core = core;
    this.#onDamaged = onDamaged;
    this.#interfacePrefix = interfacePrefix;
  }

  async get(key: EndpointKey): Promise<Versioned<WorkloadEndpoint> | undefined> {
    const [found] = await this.listByPrefix(key.namespace, key.name);
    return found?.value.name === key.name ? found : undefined;
  }

  /** Gets the pod that the prefix names: the plugin's role may not list pods (C§8.2). */
  async listByPrefix(namespace: string, namePrefix: string): Promise<readonly Versioned<WorkloadEndpoint>[]> {
    const pod = podOf({ namespace, name: namePrefix });
    const found = pod && (await this.#core.pod(pod));
    if (found === undefined || !isEndpointPod(found)) return [];
    const endpoint = this.#endpointOf(found);
    return endpoint.value.name.startsWith(namePrefix) ? [endpoint] : [];
  }

  /** Lists all pods that have networking of their own. Needs the right to list pods, which the plugin's role lacks. */
  async list(): Promise<readonly Versioned<WorkloadEndpoint>[]> {
    return (await this.#core.listPods()).filter(isEndpointPod).map((pod) => this.#endpointOf(pod));
  }

  /** Writes the addresses; the pod must be there, whatever its annotations say so far. */
  async create(key: EndpointKey, value: WorkloadEndpoint): Promise<Versioned<WorkloadEndpoint>> {
    const pod = podOf(key);
    const there = pod && (await this.#core.pod(pod));
    if (there === undefined) throw missing(key);
    return this.#annotate(there, there.uid, value);
  }

  /** Does as `create`; the revision says which pod is meant, not which state of it: kubelet writes to the pod at the same time (C§7.6). */
  async update(key: EndpointKey, value: WorkloadEndpoint, revision: string): Promise<Versioned<WorkloadEndpoint>> {
    return this.#annotate(mustBePod(key), preconditionsOf(revision).uid, value);
  }

  /** Blanks the addresses if the pod still is at `revision`. */
  async delete(key: EndpointKey, revision: string): Promise<void> {
    await patchPod(this.#core, mustBePod(key), blankingPatch(preconditionsOf(revision)));
  }

  async #annotate(pod: NamespacedName, uid: string, value: WorkloadEndpoint): Promise<Versioned<WorkloadEndpoint>> {
    const answer = await patchPod(this.#core, pod, annotatingPatch({ uid }, value));
    return this.#endpointOf(decodePod(parseObject(answer)));
  }

  /**
   * Reads as much of the pod's annotations as can be read. A mistake in one must not hide the pod from a list: a comparison of
   * addresses with endpoints would then release those of a running pod.
   */
  #endpointOf(pod: Pod): Versioned<WorkloadEndpoint> {
    const { endpoint, problems } = convertPod(pod, this.#interfacePrefix);
    for (const problem of problems) this.#onDamaged(new DatastoreError("invalid", problem.message, problem));
    return { value: endpoint, revision: revisionOf(pod) };
  }
}

function mustBePod(key: EndpointKey): NamespacedName {
  const pod = podOf(key);
  if (pod !== undefined) return pod;
  throw missing(key, " is no Kubernetes pod's");
}
