/**
 * The endpoint that a pod is (C§7.5): on the Kubernetes datastore a workload endpoint has no object of its own, it is a view of its
 * pod. Exactly one a pod, always called `eth0`, without a MAC, which the annotations do not hold.
 */
import { TortieError } from "../../errors/errors.ts";
import type { ContainerPort, Pod } from "../../kubernetes/objects.ts";
import { presentNats } from "../../workload/annotations/floating-ips.ts";
import { addressesOfPod } from "../../workload/annotations/pod-addresses.ts";
import { annotatedSourcePrefixes } from "../../workload/annotations/source-prefixes.ts";
import { endpointLabels, podProfiles } from "../../workload/endpoint.ts";
import { POD_ENDPOINT, workloadEndpointName } from "../../workload/endpoint-name.ts";
import { hostInterfaceNameIfAny } from "../../workload/interface-names.ts";
import { qosControlsOf } from "../../workload/qos-controls.ts";
import type { EndpointPort, QosControls, WorkloadEndpoint } from "../../workload/workload-endpoint.ts";
import { CONTAINER_ID } from "./pod-record.ts";

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

/** The endpoint, made of what can be read. @throws TortieError `identity-invalid` when the pod is on no node: it has no name then */
export function convertPod(pod: Pod, interfacePrefix?: string): ConvertedPod {
  if (pod.nodeName === "") {
    const problem = `error with field node (field should be assigned): pod ${pod.namespace}/${pod.name} is on no node yet`;
    throw new TortieError("identity-invalid", problem, { next: "wait until the scheduler has chosen a node; spec.nodeName names it" });
  }
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

function optionalParts(pod: Pod, qosControls: QosControls | undefined): Pick<WorkloadEndpoint, "annotations" | "qosControls"> {
  const status = pod.annotations[NETWORK_STATUS];
  return {
    ...(status === undefined ? {} : { annotations: { [NETWORK_STATUS]: status } }),
    ...(qosControls === undefined ? {} : { qosControls }),
  };
}

/** Those with a number and either a name or a port of the host, of a protocol that policy knows. */
export function endpointPorts(ports: readonly ContainerPort[]): readonly EndpointPort[] {
  return ports.flatMap(({ name, protocol, containerPort, hostPort, hostIP }) => {
    const known = protocol === "" ? "TCP" : protocol;
    if (containerPort === 0 || (name === "" && hostPort === 0) || !["TCP", "UDP", "SCTP"].includes(known)) return [];
    return [{ name, protocol: known, port: containerPort, hostPort, hostIP }];
  });
}

/** The value of a reader, or none and the problem that it threw. */
function readable<T>(read: () => readonly T[]): { readonly value: readonly T[]; readonly problems: readonly TortieError[] } {
  try {
    return { value: read(), problems: [] };
  } catch (error) {
    if (error instanceof TortieError) return { value: [], problems: [error] };
    throw error;
  }
}
