/** Handle ids of workloads (I§2.5): the index from an attachment's container to its addresses. */
import type { WorkloadIdentity } from "./identity.ts";

/** `<network>.<containerID>`. */
export function workloadHandleId(network: string, containerId: string): string {
  return `${network}.${containerId}`;
}

/** What addresses of early Calico versions stand under: `<namespace>.<pod>`, or the bare container id. DEL releases it too (I§1.7). */
export function legacyHandleId(identity: Pick<WorkloadIdentity, "orchestrator" | "namespace" | "pod" | "containerId">): string {
  return identity.orchestrator === "k8s" ? `${identity.namespace}.${identity.pod}` : identity.containerId;
}

/** Whether a handle is a virtual machine's, `<network>.vmi.<…>` (I§2.5): its addresses may have no owner for a while. */
export function isMachineHandle(handle: string): boolean {
  return handle.includes(".vmi.");
}
