/** The record of an endpoint: the last thing an ADD writes, and removed by the DEL of the same container only (design, invariant 7). */
import { type Datastore, isDatastoreFailure } from "../lib/datastore/datastore.ts";
import type { WorkloadEndpoint } from "../lib/datastore/resources.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { Attachment } from "./attachment.ts";
import type { Services } from "./services.ts";

/** Two ADDs or a DEL of the same endpoint may interleave; each try reads afresh. */
const TRIES = 10;

/** Creates or replaces the record: the newest sandbox of a workload owns it. */
export async function writeEndpoint(datastore: Datastore, endpoint: WorkloadEndpoint): Promise<void> {
  const key = { namespace: endpoint.namespace, name: endpoint.name };
  await retryRaces(`${endpoint.namespace}/${endpoint.name}`, async () => {
    const known = await datastore.endpoints.get(key);
    if (known === undefined) await datastore.endpoints.create(key, endpoint);
    else await datastore.endpoints.update(key, endpoint, known.revision);
  });
}

/** Removes what ADD wrote of this container, wherever that is: a record of its own, or annotations of its pod (C§7.6). */
export async function removeRecord(attachment: Attachment, services: Services): Promise<void> {
  const { namespace, pod, containerId } = attachment.identity;
  if (services.datastoreType !== "kubernetes") return removeEndpoint(await services.datastore(), attachment, containerId);
  // A runtime that does not say which pod it was: nothing can have been added like that.
  if (pod === "") return;
  const withdrawal = await (await services.core()).withdraw({ namespace, name: pod }, containerId);
  services.log.debug("annotations of the pod", { withdrawal });
}

/** Removes the record if it is this container's; a record without container id counts as owned (C§6.2). */
async function removeEndpoint(datastore: Datastore, attachment: Attachment, containerId: string): Promise<void> {
  const key = attachment.endpointKey;
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
