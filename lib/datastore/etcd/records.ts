/** Endpoint records in etcd. A pod has one record for all its interfaces, under the name that its first ADD gave it (C§2.1 step 13). */

import { matchesEndpointName, parseWorkloadEndpointName } from "../../workload/endpoint-name.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../workload/workload-endpoint.ts";
import type { WorkloadEndpoints } from "../datastore.ts";
import { type Clearing, ObjectRecords, type WorkloadAsRead } from "../endpoint-records.ts";
import { isDatastoreFailure } from "../errors.ts";

const POD = "k8s";

export class EtcdRecords extends ObjectRecords {
  readonly #endpoints: WorkloadEndpoints;

  constructor(endpoints: WorkloadEndpoints) {
    super(endpoints);
    this.#endpoints = endpoints;
  }

  /** Where the ADD has read that there is no record, it is made without another look. */
  override async write(endpoint: WorkloadEndpoint, workload?: WorkloadAsRead): Promise<void> {
    if (workload !== undefined && workload.containerID === undefined) {
      try {
        await this.#endpoints.create({ namespace: endpoint.namespace, name: endpoint.name }, endpoint);
        return;
      } catch (error) {
        if (!isDatastoreFailure(error, "already-exists")) throw error;
      }
    }
    await super.write(endpoint);
  }

  /** A pod's record has its addresses whatever interface a DEL names: all of them are released (C§6.2). */
  override async clear(key: EndpointKey, containerId: string): Promise<Clearing> {
    const clearing = await super.clear(key, containerId);
    const parts = parseWorkloadEndpointName(key.name);
    if (clearing !== "gone" || parts?.orchestrator !== POD) return clearing;
    const { node, orchestrator, workload: pod } = parts;
    const identifiers = { node, orchestrator, pod, containerId: "", endpoint: "" };
    const prefix = key.name.slice(0, key.name.length - parts.endpoint.replaceAll("-", "--").length);
    for (const { value } of await this.#endpoints.listByPrefix(key.namespace, prefix)) {
      if (matchesEndpointName(value.name, identifiers)) return super.clear({ namespace: key.namespace, name: value.name }, containerId);
    }
    return clearing;
  }
}
