/**
 * Keeps the record of an endpoint: which container has which addresses. An ADD writes it as its last step, and only a DEL of the same
 * container clears it (design, invariant 7), wherever it is kept: an object of its own, or annotations of the pod.
 */
import { TortieError } from "../errors/errors.ts";
import type { EndpointKey, WorkloadEndpoint } from "../workload/endpoint.ts";
import type { Clearing, EndpointRecords, RecordedAddresses, WorkloadEndpoints } from "./datastore.ts";
import { isDatastoreFailure } from "./errors.ts";

/** Two ADDs or a DEL of the same endpoint may interleave; each try reads afresh. */
const TRIES = 10;

/** Records that are the endpoints' own objects. */
export class ObjectRecords implements EndpointRecords {
  readonly #endpoints: WorkloadEndpoints;

  constructor(endpoints: WorkloadEndpoints) {
    this.#endpoints = endpoints;
  }

  async read(key: EndpointKey): Promise<RecordedAddresses | undefined> {
    return (await this.#endpoints.get(key))?.value;
  }

  async write(endpoint: WorkloadEndpoint): Promise<void> {
    const key = { namespace: endpoint.namespace, name: endpoint.name };
    await retryRaces(key, async () => {
      const known = await this.#endpoints.get(key);
      if (known === undefined) await this.#endpoints.create(key, endpoint);
      else await this.#endpoints.update(key, endpoint, known.revision);
    });
  }

  /** A record without container id counts as this container's (C§6.2). */
  async clear(key: EndpointKey, containerId: string): Promise<Clearing> {
    return retryRaces(key, async () => {
      const known = await this.#endpoints.get(key);
      if (known === undefined) return "gone";
      if (known.value.containerID !== "" && known.value.containerID !== containerId) return "not-ours";
      await this.#endpoints.delete(key, known.revision);
      return "cleared";
    });
  }
}

async function retryRaces<T>({ namespace, name }: EndpointKey, attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (!isDatastoreFailure(error, "conflict", "already-exists", "not-found")) throw error;
      if (tries === TRIES) {
        throw new TortieError(
          "endpoint-contended",
          `endpoint ${namespace}/${name} was modified before it could be written, ${TRIES} times in a row`,
          { cause: error },
        );
      }
    }
  }
}
