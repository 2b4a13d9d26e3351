/**
 * Names that CNI allows and a datastore does not take, refused before anything is touched (design §8: Calico finds out after
 * networking, or after 90 seconds and 500 requests). The local datastore takes every name that CNI allows.
 */

import type { DatastoreType } from "../config/network-config.ts";
import { TortieError } from "../errors/errors.ts";
import { isSubdomain } from "../system/subdomain.ts";
import { workloadHandleId } from "./handles.ts";
import type { WorkloadIdentity } from "./identity.ts";

/** C§7.1. */
const CONTAINER_ID = /^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$/;

/**
 * For ADD only: a DEL of such names finds nothing and must succeed (recordings id-legal-but-not-calico, name-dots).
 * @throws TortieError `identity-invalid` naming the field
 */
export function checkIdentity(identity: WorkloadIdentity, network: string, datastore: DatastoreType): void {
  if (datastore === "local") return;
  if (datastore === "kubernetes") {
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
