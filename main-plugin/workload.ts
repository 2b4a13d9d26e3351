/**
 * Reads who a container is, what it requests and what its record says that it has: data only, read before anything is decided (design §2).
 *
 * A plain container's record is an endpoint in the datastore; a pod's on Kubernetes is three annotations of its own, beside those that
 * people write to request something (C§3.1, C§7.6). One GET of the pod serves both.
 */
import { formatPrefix } from "../lib/addresses/address.ts";
import { isCalicoIpam } from "../lib/config/ipam-section.ts";
import type { KubernetesCore, RecordedAddresses } from "../lib/datastore/datastore.ts";
import { assertScheduled, endpointPorts } from "../lib/datastore/kubernetes/pod-endpoint.ts";
import { recordOfPod } from "../lib/datastore/kubernetes/pod-record.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { Namespace, NamespacedName, Pod } from "../lib/kubernetes/objects.ts";
import { floatingNats } from "../lib/workload/annotations/pod-addresses.ts";
import { annotatedSourcePrefixes, type PodRequests, podRequests, withoutAnnotations } from "../lib/workload/annotations/requests.ts";
import type { WorkloadEndpoint } from "../lib/workload/endpoint.ts";
import { buildEndpoint, findOwnEndpoint, type PodMetadata, withEndpointOf } from "../lib/workload/endpoint.ts";
import type { WorkloadIdentity } from "../lib/workload/identity.ts";
import { POD_ENDPOINT, workloadEndpointNamePrefix } from "../lib/workload/names.ts";
import type { AddCall, HeldAddresses } from "./call.ts";
import type { Host } from "./host.ts";

export interface Workload {
  /** With the name that the endpoint's record has, which need not be that of the interface (C§2.1 step 13). */
  readonly identity: WorkloadIdentity;
  readonly requests: PodRequests;
  /** The record of any container of the workload; `undefined` when none has addresses. */
  readonly recorded: RecordedAddresses | undefined;
  /** The complete record, where the datastore keeps one. */
  readonly record: WorkloadEndpoint | undefined;
  /** Of the pod whose annotations are the record: a new pod of the same name has another. */
  readonly podUid: string | undefined;
  /** The UID by which the runtime knows the pod. A static pod's mirror at the API server may be replaced, with another UID; this one stays. */
  readonly runtimePodUid: string | undefined;
  /** What a separate record repeats of the pod; absent where the pod itself is the record. */
  readonly pod?: PodMetadata;
}

/** @throws TortieError `annotation-invalid`, `feature-disabled`, `identity-invalid`, `datastore-object-missing`; DatastoreError */
export async function readWorkload(call: AddCall, host: Host): Promise<Workload> {
  const { identity, traits } = call;
  // Without a cluster a pod is a container like any other.
  if (identity.orchestrator !== "k8s" || traits.poolsFrom === "netconf") return readPlainContainer(call, host);
  return traits.endpointsAre === "annotations" ? readPod(call, await coreFor(call, host)) : readRecordedPod(call, host);
}

/** Says whether an earlier ADD of this attachment gave addresses to this very container, which may be using them. */
export function isRepeated({ recorded }: Pick<Workload, "recorded">, containerId: string): boolean {
  return recorded?.containerID === containerId && recorded.ipNetworks.length > 0;
}

/** Says whether another interface of this container has a record of its own; a pod has one record for all its interfaces. */
export async function hasSibling({ identity, endpointKey, traits }: AddCall, host: Host): Promise<boolean> {
  if (traits.endpointsAre === "annotations") return false;
  const { endpoints } = await host.datastore();
  const prefix = workloadEndpointNamePrefix({ ...identity, endpoint: "" });
  const siblings = await endpoints.listByPrefix(endpointKey.namespace, prefix);
  return siblings.some(({ value }) => value.containerID === identity.containerId);
}

/** Makes the record of an attachment whose links are up (C§7.1). @throws TortieError `annotation-invalid` */
export function endpointOf(call: AddCall, workload: Workload, lease: Pick<HeldAddresses, "addresses">, mac: string): WorkloadEndpoint {
  const { config } = call;
  const addresses = lease.addresses.map(formatPrefix);
  return buildEndpoint({
    identity: workload.identity,
    network: config.name,
    policyType: config.policy.type,
    addresses,
    hostInterface: call.hostInterface,
    mac,
    pod: workload.pod,
    ipNATs: floatingNats(workload.requests.floatingIps, addresses),
    allowedSourcePrefixes: workload.requests.allowedSourcePrefixes,
  });
}

/** Creates or replaces the record: the newest sandbox of a workload owns it. */
export async function writeRecord(endpoint: WorkloadEndpoint, { podUid, recorded }: Workload, host: Host): Promise<void> {
  const { records } = await host.datastore();
  await records.write(endpoint, { podUid, containerID: recorded?.containerID });
}

/**
 * Makes the network's profile, which it has without `policy.type`: its endpoints accept traffic from each other and may send anywhere
 * (C§2.7). Runs before the record that names it is written; where a store keeps no profiles, the endpoint is Felix's to judge without one.
 */
export async function ensureProfile({ config, identity }: AddCall, host: Host): Promise<void> {
  if (config.policy.type !== "") return;
  const { profiles } = await host.datastore();
  await profiles.ensure({ name: config.name, ingressSelector: identity.orchestrator === "k8s" ? "" : `has(${config.name})` });
}

async function readPlainContainer({ identity, endpointKey, requested }: AddCall, host: Host): Promise<Workload> {
  const record = (await (await host.datastore()).endpoints.get(endpointKey))?.value;
  return { identity, requests: withoutAnnotations(requested), recorded: record, record, podUid: undefined, runtimePodUid: undefined };
}

async function readPod(call: AddCall, core: KubernetesCore): Promise<Workload> {
  const { identity, config, requested } = call;
  const pod = await existingPod(call, core);
  assertScheduled(pod);
  const namespace = config.policy.type === "k8s" ? await namespaceOf(pod, config, core) : undefined;
  return {
    identity: pod.nodeName === identity.node ? { ...identity, endpoint: POD_ENDPOINT } : identity,
    requests: podRequests(pod, namespace, config, requested),
    recorded: recordOfPod(pod),
    record: undefined,
    podUid: pod.uid,
    runtimePodUid: runtimePodUidOf(call, pod),
  };
}

/**
 * Reads a pod whose record is an endpoint of its own, under the name that its first ADD gave it. What the pod says counts only with
 * `policy.type` k8s; with another one the API server is not asked (C§2.3 S5).
 */
async function readRecordedPod(call: AddCall, host: Host): Promise<Workload> {
  const { config, requested } = call;
  const { endpoints } = await host.datastore();
  const prefix = workloadEndpointNamePrefix({ ...call.identity, endpoint: "" });
  const found = await endpoints.listByPrefix(call.identity.namespace, prefix);
  const record = findOwnEndpoint(
    found.map(({ value }) => value),
    call.identity,
  );
  const identity = record === undefined ? call.identity : withEndpointOf(call.identity, record);
  const known = { identity, recorded: record, record, podUid: undefined, runtimePodUid: undefined };
  if (config.policy.type !== "k8s") return { ...known, requests: withoutAnnotations(requested) };
  const core = await coreFor(call, host);
  const pod = await existingPod(call, core);
  const namespace = await namespaceOf(pod, config, core);
  return { ...known, requests: podRequests(pod, namespace, config, requested), pod: { ...pod, ports: endpointPorts(pod.ports) } };
}

/** Finds the UID that the runtime knows: a static pod's annotation has it (kubelet, config/common.go); not every runtime hands it on. */
function runtimePodUidOf({ args }: AddCall, { annotations }: Pod): string | undefined {
  return args.podUid || annotations["kubernetes.io/config.mirror"] || undefined;
}

async function coreFor({ identity }: AddCall, host: Host): Promise<KubernetesCore> {
  const core = await host.core();
  if (core !== undefined) return core;
  throw new TortieError(
    "kubeconfig-missing",
    `no way to a Kubernetes API server is configured, and policy.type k8s needs it for pod ${identity.namespace}/${identity.pod}`,
  );
}

/** Reads the pod of the runtime's call, and accepts no copy of its predecessor. */
async function existingPod({ identity, args }: AddCall, core: KubernetesCore): Promise<Pod> {
  const key = { namespace: identity.namespace, name: identity.pod };
  return (await core.pod(key, { mayBeOld: true, uid: args.podUid })) ?? (await missing(key, core));
}

/** Reads the namespace, whose annotations matter to Calico's IPAM only. */
async function namespaceOf(pod: Pod, config: AddCall["config"], core: KubernetesCore): Promise<Namespace | undefined> {
  // Judges before the namespace is read, which does not have this annotation.
  annotatedSourcePrefixes(pod);
  return isCalicoIpam(config.ipam.type) ? existing(await core.namespace(pod.namespace), pod.namespace) : undefined;
}

/**
 * Names the one of a pod and its namespace that is missing, in the words of the API server (recordings pod-missing, namespace-missing).
 */
async function missing({ namespace, name }: NamespacedName, core: KubernetesCore): Promise<never> {
  existing(await core.namespace(namespace), namespace);
  throw new TortieError("datastore-object-missing", `pods ${JSON.stringify(name)} not found in namespace ${namespace}`);
}

function existing(namespace: Namespace | undefined, name: string): Namespace {
  if (namespace === undefined) throw new TortieError("datastore-object-missing", `namespaces ${JSON.stringify(name)} not found`);
  return namespace;
}
