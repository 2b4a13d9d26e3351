/**
 * Makes what a store keeps of one attachment, and what Felix enforces by it: Calico's WorkloadEndpoint (C§7); and finds the existing record
 * that an ADD continues (C§2.1 step 13).
 */
import type { NamespacedName, Pod } from "../kubernetes/objects.ts";
import type { WorkloadIdentity } from "./identity.ts";
import { matchesEndpointName, POD_ENDPOINT, parseWorkloadEndpointName, workloadEndpointName } from "./names.ts";

/** Key of a workload endpoint (C§7.2). */
export type EndpointKey = NamespacedName;

export interface EndpointPort {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  readonly hostPort: number;
  readonly hostIP: string;
}

/**
 * Limits that Felix enforces on an endpoint (C§3.4). Bandwidth and peak rate are in bit/s, burst in bits, minburst in bytes, packet rate in
 * packets/s; a limit that is not set is absent.
 */
export type QosControls = {
  readonly [limit in `${"ingress" | "egress"}${QosLimit}`]?: number;
} & {
  /** 0 to 63, or a name such as "AF11", upper case. */
  readonly dscp?: number | string;
};

/** What is limited in each direction. */
export type QosLimit = "Bandwidth" | "Burst" | "Peakrate" | "Minburst" | "PacketRate" | "PacketBurst" | "MaxConnections";

/** C§7.1, with the part of the metadata that is ours to write. Empty strings and lists are left out on the wire. */
export interface WorkloadEndpoint {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly orchestrator: string;
  readonly node: string;
  readonly containerID: string;
  readonly pod: string;
  readonly endpoint: string;
  readonly serviceAccountName: string;
  readonly generateName: string;
  /** /32 and /128. */
  readonly ipNetworks: readonly string[];
  readonly ipNATs: readonly { readonly internalIP: string; readonly externalIP: string }[];
  readonly profiles: readonly string[];
  readonly interfaceName: string;
  readonly mac: string;
  readonly ports: readonly EndpointPort[];
  readonly allowSpoofedSourcePrefixes: readonly string[];
  /**
   * Only annotations of its pod name its addresses, which whoever may patch the pod writes: nothing is granted for them (design,
   * invariant 17). Absent where kubelet or the endpoint's own node says them.
   */
  readonly isClaimed?: true;
  /** Of the metadata: only what a reader of pods passes on (C§3.1). */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Only of endpoints that are read from pods: an ADD does not store them (C§3.4). */
  readonly qosControls?: QosControls;
}

/** What Kubernetes knows of a pod; empty without an API server. */
export interface PodMetadata extends Pick<Pod, "labels" | "serviceAccountName" | "generateName"> {
  readonly ports: readonly EndpointPort[];
}

export interface EndpointFacts {
  readonly identity: WorkloadIdentity;
  readonly network: string;
  /** `policy.type`. */
  readonly policyType: string;
  /** /32 and /128, in the order of the result. */
  readonly addresses: readonly string[];
  readonly hostInterface: string;
  /** MAC of the pod end. */
  readonly mac: string;
  readonly pod?: PodMetadata;
  readonly ipNATs?: WorkloadEndpoint["ipNATs"];
  /** Canonical CIDRs. */
  readonly allowedSourcePrefixes?: readonly string[];
}

/** @throws TortieError `identity-invalid` when no name can be made */
export function buildEndpoint(facts: EndpointFacts): WorkloadEndpoint {
  const { identity, pod } = facts;
  const { namespace, name } = endpointKey(identity);
  const serviceAccountName = pod?.serviceAccountName ?? "";
  return {
    name,
    namespace,
    labels: {
      ...(pod?.labels ?? {}),
      ...endpointLabels(namespace, identity.orchestrator, serviceAccountName),
    },
    orchestrator: identity.orchestrator,
    node: identity.node,
    containerID: identity.containerId,
    pod: identity.pod,
    endpoint: identity.endpoint,
    serviceAccountName,
    generateName: pod?.generateName ?? "",
    ipNetworks: facts.addresses,
    ipNATs: facts.ipNATs ?? [],
    profiles: facts.policyType === "k8s" ? podProfiles(namespace, serviceAccountName) : [facts.network],
    interfaceName: facts.hostInterface,
    mac: facts.mac,
    ports: pod?.ports ?? [],
    allowSpoofedSourcePrefixes: facts.allowedSourcePrefixes ?? [],
  };
}

/** Finds where the record of a workload lies. @throws TortieError `identity-invalid` */
export function endpointKey(identity: WorkloadIdentity): EndpointKey {
  return { namespace: identity.namespace, name: workloadEndpointName(identity) };
}

/** Finds where the record of a pod lies that has one endpoint for all its interfaces. @throws TortieError `identity-invalid` */
export function podEndpointKey(node: string, { namespace, name }: EndpointKey): EndpointKey {
  const identifiers = { orchestrator: "k8s", node, pod: name, containerId: "", endpoint: POD_ENDPOINT };
  return { namespace, name: workloadEndpointName(identifiers) };
}

/**
 * Finds the record of the same workload under whatever endpoint name it has: node, orchestrator and pod or container id agree. Its name and
 * its endpoint name are kept, even if CNI_IFNAME differs (C§2.1 step 13).
 */
export function findOwnEndpoint<T extends Pick<WorkloadEndpoint, "name">>(found: readonly T[], identity: WorkloadIdentity): T | undefined {
  return found.find(({ name }) => matchesEndpointName(name, { ...identity, endpoint: "" }));
}

/** Gives the identity the endpoint name that an existing record has. */
export function withEndpointOf(identity: WorkloadIdentity, existing: Pick<WorkloadEndpoint, "name">): WorkloadIdentity {
  return { ...identity, endpoint: parseWorkloadEndpointName(existing.name)?.endpoint || identity.endpoint };
}

/** Adds the profile of a further network to a container that has a record (C§2.6 step 2). */
export function withProfile(endpoint: WorkloadEndpoint, network: string): WorkloadEndpoint {
  return endpoint.profiles.includes(network) ? endpoint : { ...endpoint, profiles: [...endpoint.profiles, network] };
}

/** Kubernetes label values hold at most 63 characters; Calico leaves the label out from 63 on (C§7.3). */
const LONGEST_SERVICE_ACCOUNT_LABEL = 62;

/** Profiles of a pod under `policy.type: k8s`: of its namespace, then of its service account. */
export function podProfiles(namespace: string, serviceAccount: string): readonly string[] {
  return [`kns.${namespace}`, ...(serviceAccount === "" ? [] : [`ksa.${namespace}.${serviceAccount}`])];
}

/** Labels that Calico adds to every endpoint; they stand in for labels of the same keys that a workload brings. */
export function endpointLabels(namespace: string, orchestrator: string, serviceAccount: string): Readonly<Record<string, string>> {
  return {
    "projectcalico.org/namespace": namespace,
    "projectcalico.org/orchestrator": orchestrator,
    ...(serviceAccount === "" || serviceAccount.length > LONGEST_SERVICE_ACCOUNT_LABEL
      ? {}
      : { "projectcalico.org/serviceaccount": serviceAccount }),
  };
}
