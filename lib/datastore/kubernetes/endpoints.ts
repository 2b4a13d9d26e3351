/** Workload endpoints, which in Kubernetes are a view of pods (C§7.5, C§7.6): annotations are all that is written of them. */

import type { NamespacedName, Pod } from "../../kubernetes/objects.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../workload/workload-endpoint.ts";
import type { Versioned, WorkloadEndpoints } from "../datastore.ts";
import { DatastoreError } from "../errors.ts";
import type { ApiCore } from "./core/api-core.ts";
import { decodePod } from "./core/decode-objects.ts";
import { parseKubernetesObject, preconditionsOf, revisionOf } from "./core/metadata.ts";
import { convertPod, isEndpointPod } from "./pod-endpoint.ts";
import { annotatingPatch, blankingPatch, patchPod, podOf } from "./pod-record.ts";
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
    const pod = podOf({ namespace, name: namePrefix });
    const found = pod && (await this.#core.pod(pod));
    if (found === undefined || !isEndpointPod(found)) return [];
    const endpoint = this.#endpointOf(found);
    return endpoint.value.name.startsWith(namePrefix) ? [endpoint] : [];
  }

  /** All pods that have networking of their own. Needs the right to list pods, which the plugin's role lacks. */
  async list(): Promise<readonly Versioned<WorkloadEndpoint>[]> {
    return (await this.#core.listPods()).filter(isEndpointPod).map((pod) => this.#endpointOf(pod));
  }

  /** Writes the addresses; the pod must be there, whatever its annotations say so far. */
  async create(key: EndpointKey, value: WorkloadEndpoint): Promise<Versioned<WorkloadEndpoint>> {
    const pod = podOf(key);
    const there = pod && (await this.#core.pod(pod));
    if (there === undefined)
      throw new DatastoreError("not-found", `resource does not exist: WorkloadEndpoint(${key.namespace}/${key.name})`);
    return this.#annotate(there, there.uid, value);
  }

  /** As `create`; the revision says which pod is meant, not which state of it: kubelet writes to the pod at the same time (C§7.6). */
  async update(key: EndpointKey, value: WorkloadEndpoint, revision: string): Promise<Versioned<WorkloadEndpoint>> {
    return this.#annotate(mustBePod(key), preconditionsOf(revision).uid, value);
  }

  /** Blanks the addresses if the pod still is at `revision`. */
  async delete(key: EndpointKey, revision: string): Promise<void> {
    await patchPod(this.#core, mustBePod(key), blankingPatch(preconditionsOf(revision)));
  }

  async #annotate(pod: NamespacedName, uid: string, value: WorkloadEndpoint): Promise<Versioned<WorkloadEndpoint>> {
    const answer = await patchPod(this.#core, pod, annotatingPatch({ uid }, value));
    return this.#endpointOf(decodePod(parseKubernetesObject(answer)));
  }

  /**
   * Reads as much of the pod's annotations as can be read. A mistake in one must not hide the pod from a list: a comparison of
   * addresses with endpoints would then release those of a running pod.
   */
  #endpointOf(pod: Pod): Versioned<WorkloadEndpoint> {
    const { endpoint, problems } = convertPod(pod, this.#interfacePrefix);
    for (const problem of problems) this.#onDamaged(new DatastoreError("invalid", problem.message, problem));
    return { value: endpoint, revision: revisionOf(pod) };
  }
}

function mustBePod(key: EndpointKey): NamespacedName {
  const pod = podOf(key);
  if (pod !== undefined) return pod;
  throw new DatastoreError("not-found", `resource does not exist: WorkloadEndpoint(${key.namespace}/${key.name}) is no Kubernetes pod's`);
}
