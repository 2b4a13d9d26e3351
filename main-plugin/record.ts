/**
 * The record of an attachment: the last thing an ADD writes, and removed by the DEL of the same container only (design, invariant 7).
 * A pod's on Kubernetes is three annotations of its own; every other is an endpoint in the datastore (C§7.6).
 */
import { formatPrefix } from "../lib/addresses/address.ts";
import { type Datastore, isDatastoreFailure } from "../lib/datastore/datastore.ts";
import type { KubernetesCore } from "../lib/datastore/kubernetes/core/core.ts";
import type { WorkloadEndpoint } from "../lib/datastore/resources.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { floatingNats } from "../lib/workload/annotations/floating-ips.ts";
import { buildEndpoint } from "../lib/workload/endpoint.ts";
import type { Lease } from "./addresses.ts";
import type { AddCall, AttachmentCall } from "./call.ts";
import type { Node } from "./node.ts";
import type { Workload } from "./workload.ts";

/** Two ADDs or a DEL of the same endpoint may interleave; each try reads afresh. */
const TRIES = 10;

/** The record of an attachment whose links are up (C§7.1). @throws TortieError `annotation-invalid` */
export function endpointOf(call: AddCall, workload: Workload, lease: Pick<Lease, "addresses">, mac: string): WorkloadEndpoint {
  const { config } = call;
  const addresses = lease.addresses.map(formatPrefix);
  return buildEndpoint({
    identity: workload.identity,
    network: config.name,
    policyType: config.policy.type,
    addresses,
    hostInterface: call.hostInterface,
    mac,
    mesosLabels: config.mesosLabels,
    ipNATs: floatingNats(workload.requests.floatingIps, addresses),
    allowedSourcePrefixes: workload.requests.allowedSourcePrefixes,
  });
}

/** Creates or replaces the record: the newest sandbox of a workload owns it. */
export async function writeRecord(endpoint: WorkloadEndpoint, call: AddCall, workload: Workload, node: Node): Promise<void> {
  const core = await node.core();
  if (core === undefined || workload.podUid === undefined) return writeEndpoint(await node.datastore(), endpoint);
  await annotate(endpoint, workload.podUid, call, workload, core);
}

/** Removes what ADD wrote of this container, wherever that is. */
export async function removeRecord(call: AttachmentCall, node: Node): Promise<void> {
  const { namespace, pod, containerId } = call.identity;
  const core = await node.core();
  if (core === undefined) return removeEndpoint(await node.datastore(), call);
  // A runtime that does not say which pod it was: nothing can have been added like that.
  if (pod === "") return;
  const withdrawal = await core.withdraw({ namespace, name: pod }, containerId);
  call.log.debug("annotations of the pod", { withdrawal });
}

async function annotate(
  { containerID, ipNetworks }: WorkloadEndpoint,
  uid: string,
  { identity, log }: AddCall,
  { recorded }: Workload,
  core: KubernetesCore,
): Promise<void> {
  const { namespace, pod: name } = identity;
  try {
    await core.announce({ namespace, name, uid }, { containerID, ipNetworks });
  } catch (error) {
    // No answer does not mean that nothing was written. What an earlier ADD of this container wrote stays: its DEL clears it.
    if (isDatastoreFailure(error, "unavailable") && recorded?.containerID !== containerID) {
      await core.withdraw({ namespace, name }, containerID).catch((failure: unknown) => {
        log.error(`cannot clear the annotations of pod ${namespace}/${name}: ${messageOf(failure)}`);
      });
    }
    throw error;
  }
}

async function writeEndpoint(datastore: Datastore, endpoint: WorkloadEndpoint): Promise<void> {
  const key = { namespace: endpoint.namespace, name: endpoint.name };
  await retryRaces(`${endpoint.namespace}/${endpoint.name}`, async () => {
    const known = await datastore.endpoints.get(key);
    if (known === undefined) await datastore.endpoints.create(key, endpoint);
    else await datastore.endpoints.update(key, endpoint, known.revision);
  });
}

/** Removes the record if it is this container's; a record without container id counts as owned (C§6.2). */
async function removeEndpoint(datastore: Datastore, { endpointKey: key, identity: { containerId } }: AttachmentCall): Promise<void> {
  await retryRaces(`${key.namespace}/${key.name}`, async () => {
    const known = await datastore.endpoints.get(key);
    if (known === undefined) return;
    if (known.value.containerID !== "" && known.value.containerID !== containerId) return;
    await datastore.endpoints.delete(key, known.revision);
  });
}

async function retryRaces(name: string, attempt: () => Promise<void>): Promise<void> {
  for (let left = TRIES; ; left--) {
    try {
      return await attempt();
    } catch (error) {
      if (!isDatastoreFailure(error, "conflict", "already-exists", "not-found")) throw error;
      if (left <= 1) {
        throw new TortieError("endpoint-contended", `endpoint ${name} was modified before it could be written, ${TRIES} times in a row`, {
          cause: error,
        });
      }
    }
  }
}
