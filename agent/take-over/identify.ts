/**
 * Proves whose a host end is that no endpoint has (pure). Three things say something of it, and none of them counts alone:
 *
 * - its alias, or else its name, which is a digest of the workload's: both need root on this node;
 * - its host routes: the addresses that the container behind it was given;
 * - who has these addresses: the block's grant, or the status of a pod, which the kubelet writes.
 *
 * Annotations are not asked: whoever may patch a pod writes them (review, S3).
 */
import { hasWorkload, isAttachmentAlias, namesAttachment, namesWorkload, parseAttachmentAlias } from "../../dataplane/alias.ts";
import type { HostEndLink } from "../../dataplane/linux/host-ends.ts";
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { containerHostInterfaceName, endpointHostInterfaceName, POD_ENDPOINT, podHostInterfaceName } from "../../lib/workload/names.ts";

/** Grant of one address to a container of this node, as its block says. */
export interface BlockGrant {
  readonly network: string;
  readonly containerId: string;
  /** `<namespace>/<pod>`, if the block names one. */
  readonly pod: string | undefined;
}

/** What is known besides the link itself. */
export interface Evidence {
  /** Absent while no store has answered. */
  readonly grantOf: ((address: Address) => BlockGrant | undefined) | undefined;
  /** Pods of this node. */
  readonly pods: readonly Pod[];
}

export interface Identified {
  /** Absent where only the pod is proven: no store says for which container. */
  readonly attachment: AttachmentId | undefined;
  /** `<namespace>/<pod>`; absent for a plain container, and for a pod whose name nothing says. */
  readonly pod: string | undefined;
  /** Whether `pod` is known to be right: false for a pod whose name nothing says. */
  readonly isCertain: boolean;
}

/** @returns who has the host end, or the reason why nobody can be proven */
export function identify(end: HostEndLink, evidence: Evidence): Identified | { readonly problem: string } {
  const { alias, addresses } = end;
  if (addresses.length === 0) return { problem: "no host route leads to it" };
  const owner = parseAttachmentAlias(alias);
  if (owner !== undefined) {
    const { network, containerId, ifname } = owner;
    const pod = owner.workload ?? podOfLabelled(end, evidence);
    return { attachment: { network, containerId, ifname }, pod, isCertain: pod !== undefined || isOfContainer(end, owner) };
  }
  return byGrant(end, evidence) ?? byStatus(end, evidence) ?? { problem: problemOf(end, evidence) };
}

/** Finds the pod of a link whose alias is too old, or too long, to name it. */
function podOfLabelled({ name, alias, addresses }: HostEndLink, { grantOf, pods }: Evidence): string | undefined {
  const granted = addresses.flatMap((address) => grantOf?.(address)?.pod ?? []);
  const isNamed = (pod: string) => (hasWorkload(alias) ? namesWorkload(alias, pod) : isNamedFor(name, pod));
  return [...granted, ...pods.map(keyOf)].find(isNamed);
}

/** Says whether the link has the name of a plain container's, in which no pod can take part. */
function isOfContainer({ name, alias }: HostEndLink, { containerId, ifname }: AttachmentId): boolean {
  if (hasWorkload(alias)) return false;
  return name === containerHostInterfaceName(containerId) || name === endpointHostInterfaceName(containerId, ifname);
}

/** Finds a pod by the address in its status and by the name that the link has for it. */
function byStatus({ name, alias, addresses }: HostEndLink, { pods }: Evidence): Identified | undefined {
  if (isAttachmentAlias(alias)) return undefined;
  const texts = addresses.map(formatAddress);
  const pod = pods.find(({ podIP, podIPs }) => texts.every((text) => podIP === text || podIPs.includes(text)));
  if (pod === undefined || !isNamedFor(name, keyOf(pod))) return undefined;
  return { attachment: undefined, pod: keyOf(pod), isCertain: true };
}

function byGrant({ name, alias, addresses }: HostEndLink, { grantOf }: Evidence): Identified | undefined {
  const [first, ...others] = addresses.map((address) => grantOf?.(address));
  if (first === undefined || others.some((other) => other?.containerId !== first.containerId || other.network !== first.network)) {
    return undefined;
  }
  const { network, containerId, pod } = first;
  const attachment = { network, containerId, ifname: POD_ENDPOINT };
  // An alias that is too long to be read can still be compared.
  const isProven = isAttachmentAlias(alias)
    ? namesAttachment(alias, attachment) && (pod === undefined || namesWorkload(alias, pod))
    : pod === undefined
      ? name === containerHostInterfaceName(containerId)
      : isNamedFor(name, pod);
  return isProven ? { attachment, pod, isCertain: true } : undefined;
}

function problemOf({ addresses }: HostEndLink, { grantOf }: Evidence): string {
  const texts = addresses.map(formatAddress).join(", ");
  return grantOf === undefined
    ? `it has no alias, and no store says who has ${texts}`
    : `it has no alias, and ${texts} is granted to nobody whose link has this name`;
}

/** Compares the digest in the name, whatever prefix the runtime's environment gave it. */
function isNamedFor(name: string, pod: string): boolean {
  const [namespace = "", podName = ""] = pod.split("/");
  return name.endsWith(podHostInterfaceName(namespace, podName).slice(CALI.length));
}

const CALI = "cali";

export function keyOf({ namespace, name }: Pick<Pod, "namespace" | "name">): string {
  return `${namespace}/${name}`;
}
