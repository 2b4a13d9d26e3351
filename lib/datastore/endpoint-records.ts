/**
 * Keeps the record of an endpoint: which container has which addresses. An ADD writes it as its last step, and only a DEL of the same
 * container clears it (design, invariant 7), wherever it is kept: an object of its own, or annotations of the pod.
 */
import { TortieError } from "../errors/errors.ts";
import type { EndpointKey, WorkloadEndpoint } from "../workload/endpoint.ts";
import type { WorkloadEndpoints } from "./datastore.ts";
import { isDatastoreFailure } from "./errors.ts";

/** Addresses are /32 and /128, in the order of the result. */
export type EndpointRecord = Pick<WorkloadEndpoint, "containerID" | "ipNetworks">;

/** `not-ours`: another container has written it since, or nobody has. `gone`: there is no such endpoint, or no such pod. */
export type Clearing = "cleared" | "not-ours" | "gone";

/** What an ADD has read of its workload before it writes the record. */
export interface WorkloadAsRead {
  /** Where records are annotations: a new pod of the same name is not written to. */
  readonly podUid?: string | undefined;
  /** Container of the record as it was. */
  readonly containerID?: string | undefined;
}

export interface EndpointRecords {
  /** Reads the record of any container of the workload; `undefined` when none has addresses. */
  read(key: EndpointKey): Promise<EndpointRecord | undefined>;
  /**
   * Creates or replaces the record: the newest sandbox of a workload owns it. Repeating it is harmless. A write that fails leaves no
   * record of this container, unless there was one before.
   *
   * @throws TortieError `endpoint-contended`; DatastoreError
   */
  write(endpoint: WorkloadEndpoint, workload?: WorkloadAsRead): Promise<void>;
  /** Clears the record if it is this container's. Repeating it is harmless. @throws TortieError `endpoint-contended`; DatastoreError */
  clear(key: EndpointKey, containerId: string): Promise<Clearing>;
}

/** Two ADDs or a DEL of the same endpoint may interleave; each try reads afresh. */
const TRIES = 10;

/** Records that are the endpoints' own objects. */
export class ObjectRecords implements EndpointRecords {
  readonly #endpoints: WorkloadEndpoints;

  constructor(endpoints: WorkloadEndpoints) {
    this.#endpoints = endpoints;
  }

  async read(key: EndpointKey): Promise<EndpointRecord | undefined> {
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
