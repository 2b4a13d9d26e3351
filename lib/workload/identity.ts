/** Tells who a container is to the network: a Kubernetes pod, or a plain container (C§1.5, C§2.1 step 6). */

import { TortieError } from "../errors/errors.ts";
import { isSubdomain } from "../system/subdomain.ts";
import type { CniArgs } from "./requested.ts";

export interface WorkloadIdentity {
  readonly orchestrator: "k8s" | "cni";
  readonly node: string;
  readonly namespace: string;
  /** Empty for a plain container. */
  readonly pod: string;
  readonly containerId: string;
  /** Name of the endpoint: the interface's name inside the sandbox. */
  readonly endpoint: string;
}

interface IdentityFacts {
  readonly containerId: string;
  readonly interfaceName: string;
  readonly args: CniArgs;
  readonly node: string;
}

/** A pod is one that has both names; with only one of them it is a plain container (recordings args-11, args-13). */
export function identifyWorkload({ containerId, interfaceName, args, node }: IdentityFacts): WorkloadIdentity {
  if (args.podName !== "" && args.podNamespace !== "") {
    const { podName: pod, podNamespace: namespace } = args;
    return { orchestrator: "k8s", node, namespace, pod, containerId, endpoint: interfaceName };
  }
  return { orchestrator: "cni", node, namespace: args.testNamespace || "default", pod: "", containerId, endpoint: interfaceName };
}

/** Writes `<network>.<containerID>`. */
export function workloadHandleId(network: string, containerId: string): string {
  return `${network}.${containerId}`;
}

/** Says what addresses of early Calico versions stand under: `<namespace>.<pod>`, or the bare container id. DEL releases it too (I§1.7). */
export function legacyHandleId(identity: Pick<WorkloadIdentity, "orchestrator" | "namespace" | "pod" | "containerId">): string {
  return identity.orchestrator === "k8s" ? `${identity.namespace}.${identity.pod}` : identity.containerId;
}

/** Tells whether a handle is a virtual machine's, `<network>.vmi.<…>` (I§2.5): its addresses may have no owner for a while. */
export function isMachineHandle(handle: string): boolean {
  return handle.includes(".vmi.");
}

/** The container ids that Calico's endpoint names can hold (C§7.1). */
const CONTAINER_ID = /^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$/;

/**
 * Which names of CNI a store takes: `any` of them; those whose handle can be the name of a Kubernetes object (`handles`); or those of
 * which each field can (`fields`).
 */
export interface NameRules {
  readonly takesNames: "any" | "handles" | "fields";
}

/**
 * Checks for ADD only: a DEL of such names finds nothing and must succeed (recordings id-legal-but-not-calico, name-dots).
 * @throws TortieError `identity-invalid` naming the field
 */
export function checkIdentity(identity: WorkloadIdentity, network: string, { takesNames }: NameRules): void {
  if (takesNames === "any") return;
  if (takesNames === "handles") {
    // Handles are Kubernetes objects; their names are the handle ids in lower case (I§2.2).
    const handle = workloadHandleId(network, identity.containerId).toLowerCase();
    if (!isSubdomain(handle)) {
      throw invalid("network name and container id", `${network}, ${identity.containerId}`, `"${handle}" is no name that Kubernetes takes`);
    }
    return;
  }
  for (const field of ["node", "pod", "endpoint"] as const) {
    const value = identity[field];
    if (value !== "" && !isSubdomain(value)) throw invalid(field, value, "lower-case letters, digits, '-' and '.' are allowed");
  }
  if (!CONTAINER_ID.test(identity.containerId)) throw invalid("containerID", identity.containerId, "letters, digits and '-' are allowed");
}

function invalid(field: string, value: string, reason: string): TortieError {
  return new TortieError("identity-invalid", `${field} '${value}' cannot be stored: ${reason}`);
}
