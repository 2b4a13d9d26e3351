/** Workload endpoints, which in Kubernetes are a view of pods (C§7.5, C§7.6): annotations are all that is written of them. */

import type { Pod } from "../../kubernetes/objects.ts";
import { parseWorkloadEndpointName } from "../../workload/endpoint-name.ts";
import { convertPod, isEndpointPod } from "../../workload/pod-endpoint.ts";
import { DatastoreError, type EndpointKey, type NamespacedName, type Versioned, type WorkloadEndpoints } from "../datastore.ts";
import type { WorkloadEndpoint } from "../resources.ts";
import { announcementPatch, blankingPatch } from "./core/announcements.ts";
import type { ApiCore } from "./core/api-core.ts";
import { preconditionsOf, revisionOf } from "./core/metadata.ts";
import type { OnDamaged } from "./resource-collection.ts";

export class PodEndpoints implements WorkloadEndpoints {
  readonly #core: ApiCore;
  readonly #onDamaged: OnDamaged;
  readonly #interfacePrefix: string | undefined;

  /** @param interfacePrefix of host interfaces, `cali` when absent (C§4.1) */
  constructor(core: ApiCore, onDamaged: OnDamaged, interfacePrefix: string | undefined) {
    this.#core = core;
    this.#onDamaged = onDamaged;
    this.#interfacePrefix = interfacePrefix;
  }

  async get(key: EndpointKey): Promise<Versioned<WorkloadEndpoint> | undefined> {
    const [found] = await this.listByPrefix(key.namespace, key.name);
    return found?.value.name === key.name ? found : undefined;
  }

  /** One GET of the pod that the prefix names: the plugin's role may not list pods (C§8.2). */
  async listByPrefix(namespace: string, namePrefix: string): Promise<readonly Versioned<WorkloadEndpoint>[]> {
    const pod = podOf(namespace, namePrefix);
    const found = pod && (await this.#core.pod(pod));
    if (found === undefined || !isEndpointPod(found)) return [];
    const endpoint = this.#endpointOf(found);
    return endpoint.value.name.startsWith(namePrefix) ? [endpoint] : [];
  }

  /** All pods that have networking of their own. Needs the right to list pods, which the plugin's role lacks. */
  async list(): Promise<readonly Versioned<WorkloadEndpoint>[]> {
    return (await this.#core.listPods()).filter(isEndpointPod).map((pod) => this.#endpointOf(pod));
  }

  /** Tells the world of the addresses; the pod must be there, whatever its annotations say so far. */
  async create(key: EndpointKey, value: WorkloadEndpoint): Promise<Versioned<WorkloadEndpoint>> {
    const pod = podOf(key.namespace, key.name);
    const there = pod && (await this.#core.pod(pod));
    if (there === undefined)
      throw new DatastoreError("not-found", `resource does not exist: WorkloadEndpoint(${key.namespace}/${key.name})`);
    return this.#announce(there, there.uid, value);
  }

  /** As `create`; the revision says which pod is meant, not which state of it: kubelet writes to the pod at the same time (C§7.6). */
  async update(key: EndpointKey, value: WorkloadEndpoint, revision: string): Promise<Versioned<WorkloadEndpoint>> {
    return this.#announce(mustBePod(key), preconditionsOf(revision).uid, value);
  }

  /** Blanks the addresses if the pod still is at `revision`. */
  async delete(key: EndpointKey, revision: string): Promise<void> {
    await this.#core.patchPod(mustBePod(key), blankingPatch(preconditionsOf(revision)));
  }

  async #announce(pod: NamespacedName, uid: string, value: WorkloadEndpoint): Promise<Versioned<WorkloadEndpoint>> {
    const { containerID, ipNetworks } = value;
    return this.#endpointOf(await this.#core.patchPod(pod, announcementPatch({ uid }, { containerID, ipNetworks })));
  }

  /**
   * As far as the pod's annotations can be read. A pod must not be missing from a list because of a slip in one of them: whoever
   * compares addresses with endpoints would release those of a running pod.
   */
  #endpointOf(pod: Pod): Versioned<WorkloadEndpoint> {
    const { endpoint, problems } = convertPod(pod, this.#interfacePrefix);
    for (const problem of problems) this.#onDamaged(new DatastoreError("invalid", problem.message, problem));
    return { value: endpoint, revision: revisionOf(pod) };
  }
}

/** `undefined` when the name is not one of a Kubernetes pod: there are no such endpoints here. */
function podOf(namespace: string, endpointName: string): NamespacedName | undefined {
  const parts = parseWorkloadEndpointName(endpointName);
  return parts?.orchestrator === "k8s" && parts.workload !== "" ? { namespace, name: parts.workload } : undefined;
}

function mustBePod(key: EndpointKey): NamespacedName {
  const pod = podOf(key.namespace, key.name);
  if (pod !== undefined) return pod;
  throw new DatastoreError("not-found", `resource does not exist: WorkloadEndpoint(${key.namespace}/${key.name}) is no Kubernetes pod's`);
}
