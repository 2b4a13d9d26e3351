/**
 * A pod of the Kubernetes datastore: its wishes are annotations that people write, its record is three that ADD writes (C§3.1, C§7.6).
 * One GET of the pod serves both.
 */
import { formatPrefix, hostPrefix, parsePrefix } from "../lib/addresses/address.ts";
import { isCalicoIpam } from "../lib/config/ipam-section.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { isDatastoreFailure, type NamespacedName } from "../lib/datastore/datastore.ts";
import type { KubernetesCore } from "../lib/datastore/kubernetes/core/core.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import type { Namespace, Pod } from "../lib/kubernetes/objects.ts";
import { podAnnotationIfAny } from "../lib/workload/annotations/annotation.ts";
import { floatingNats } from "../lib/workload/annotations/floating-ips.ts";
import { configWithPodPools, withPodPools } from "../lib/workload/annotations/ipam-netconf.ts";
import { wishedSourcePrefixes } from "../lib/workload/annotations/source-prefixes.ts";
import { type PodWishes, podWishes } from "../lib/workload/annotations/wishes.ts";
import type { Access } from "./access.ts";
import type { Attachment } from "./attachment.ts";
import type { IpamInput } from "./ipam-input.ts";
import { encode } from "./ipam-stdin.ts";
import type { RecordedAddresses, Subject } from "./subject.ts";

/** Name of the one endpoint that a pod of the Kubernetes datastore has, whatever its interface is called (C§7.5). */
const POD_ENDPOINT = "eth0";

/** @throws TortieError `datastore-object-missing`, `identity-invalid`, `annotation-invalid`, `feature-disabled`; DatastoreError */
export async function readPodSubject(attachment: Attachment, config: NetworkConfig, access: Access): Promise<Subject> {
  const { identity, args } = attachment;
  const key = { namespace: identity.namespace, name: identity.pod };
  const core = await access.core();
  const hasWishes = config.policy.type === "k8s";
  const needsNamespace = hasWishes && isCalicoIpam(config.ipam.type);
  const pod = (await core.pod(key)) ?? (await missing(key, core));
  if (pod.nodeName === "") {
    throw new TortieError(
      "identity-invalid",
      `error with field node (field should be assigned): pod ${key.namespace}/${key.name} is on no node yet`,
      { next: "wait until the scheduler has chosen a node; spec.nodeName names it" },
    );
  }
  // Judged before the namespace, which does not have this annotation.
  if (hasWishes) wishedSourcePrefixes(pod);
  const namespace = needsNamespace ? existing(await core.namespace(key.namespace), key.namespace) : undefined;
  const known = announced(pod);
  const wishes = podWishes(pod, namespace, config, args);
  return {
    identity: pod.nodeName === identity.node ? { ...identity, endpoint: POD_ENDPOINT } : identity,
    wishes,
    adapt: (input) => adapted(input, wishes),
    nats: (ipNetworks) => floatingNats(wishes.floatingIps, ipNetworks),
    known,
    record: undefined,
    // A pod has one record for all its interfaces.
    hasSibling: async () => false,
    write: ({ containerID, ipNetworks }) => announce(core, pod, { containerID, ipNetworks }, known, access),
  };
}

function adapted({ request, config }: IpamInput, wishes: PodWishes): IpamInput {
  const netconf = withPodPools(request.netconf, wishes);
  return {
    request: netconf === request.netconf ? request : { ...request, netconf, stdin: encode(netconf) },
    config: configWithPodPools(config, wishes),
  };
}

/**
 * What the annotations of an ADD say; nothing when a DEL has blanked them. Text that is no address counts as none: nothing of an ADD
 * depends on what an earlier one wrote.
 */
export function announced(pod: Pick<Pod, "namespace" | "name" | "annotations">): RecordedAddresses | undefined {
  const containerID = podAnnotationIfAny(pod, "containerID")?.value;
  const addresses = (podAnnotationIfAny(pod, "podIPs") ?? podAnnotationIfAny(pod, "podIP"))?.value ?? "";
  const ipNetworks: string[] = [];
  for (const text of addresses.split(",")) {
    const prefix = parsePrefix(text.trim());
    if (prefix !== undefined) ipNetworks.push(formatPrefix(hostPrefix(prefix.address)));
  }
  return containerID === undefined || ipNetworks.length === 0 ? undefined : { containerID, ipNetworks };
}

async function announce(
  core: KubernetesCore,
  pod: NamespacedName & { readonly uid: string },
  announcement: RecordedAddresses,
  earlier: RecordedAddresses | undefined,
  { log }: Access,
): Promise<void> {
  const { namespace, name, uid } = pod;
  try {
    await core.announce({ namespace, name, uid }, announcement);
  } catch (error) {
    // No answer does not mean that nothing was written. What an earlier ADD of this container announced stays: its DEL withdraws it.
    if (isDatastoreFailure(error, "unavailable") && earlier?.containerID !== announcement.containerID) {
      await core.withdraw({ namespace, name }, announcement.containerID).catch((failure) => {
        log.error(`cannot withdraw the annotations of pod ${namespace}/${name}: ${messageOf(failure)}`);
      });
    }
    throw error;
  }
}

/** Of a pod and its namespace the one that is missing is named, in the words of the API server (recordings pod-missing, namespace-missing). */
async function missing({ namespace, name }: NamespacedName, core: KubernetesCore): Promise<never> {
  existing(await core.namespace(namespace), namespace);
  throw new TortieError("datastore-object-missing", `pods ${JSON.stringify(name)} not found in namespace ${namespace}`);
}

function existing(namespace: Namespace | undefined, name: string): Namespace {
  if (namespace === undefined) throw new TortieError("datastore-object-missing", `namespaces ${JSON.stringify(name)} not found`);
  return namespace;
}
