/**
 * Pods, namespaces and nodes from their watches, and from the server what a watch does not have (A§11.4 step 4). A pod whose record this
 * process has written is read from the server until the watch tells of it.
 */

import type { KubernetesCore, PodReadOptions } from "../../lib/datastore/datastore.ts";
import type { EndpointRecord, EndpointRecords } from "../../lib/datastore/endpoint-records.ts";
import { podOf, recordOfPod } from "../../lib/datastore/kubernetes/pod-record.ts";
import type { NamespacedName, Pod } from "../../lib/kubernetes/objects.ts";
import { isPodOfUid } from "../../lib/kubernetes/objects.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../lib/workload/endpoint.ts";
import type { CoreCopies } from "./cached-kubernetes.ts";
import { fromCopy } from "./read-your-writes.ts";

/** Pods whose records may be on their way through the watch. */
const MOST_WRITTEN = 4096;

type CachedFrom = { readonly [K in keyof CoreCopies]: Pick<CoreCopies[K], "isUsable" | "get" | "list"> };

export class CachedCore implements KubernetesCore {
  readonly #inner: KubernetesCore;
  readonly #copies: CachedFrom;
  /** Records as they were written last; `undefined`: cleared. */
  readonly #written = new Map<string, EndpointRecord | undefined>();

  constructor(inner: KubernetesCore, copies: CachedFrom) {
    this.#inner = inner;
    this.#copies = copies;
  }

  /** The UID of a call beats the copy: a copy of another pod of that name is old, whatever the watch says. */
  async pod(key: NamespacedName, { mayBeOld = false, uid }: PodReadOptions = {}): Promise<Pod | undefined> {
    const known = mayBeOld ? this.#podFromWatch(keyOf(key)) : undefined;
    const isOfCall = known !== undefined && (uid === undefined || isPodOfUid(known, uid));
    return isOfCall ? known : this.#inner.pod(key);
  }

  async namespace(name: string) {
    return fromCopy(this.#copies.namespaces, name)?.value ?? this.#inner.namespace(name);
  }

  async node(name: string) {
    return fromCopy(this.#copies.nodes, name)?.value ?? this.#inner.node(name);
  }

  serverVersion(timeoutMs: number): Promise<string> {
    return this.#inner.serverVersion(timeoutMs);
  }

  /** The records, with a note of what is written. */
  noting(records: EndpointRecords): EndpointRecords {
    return {
      read: (key) => records.read(key),
      write: async (endpoint, workload) => {
        this.#note(endpoint, recordOf(endpoint));
        await records.write(endpoint, workload);
      },
      clear: async (key, containerId) => {
        const outcome = await records.clear(key, containerId);
        if (outcome === "cleared") this.#note(key, undefined);
        return outcome;
      },
    };
  }

  #podFromWatch(key: string): Pod | undefined {
    const pods = this.#copies.pods;
    const pod = pods.isUsable ? pods.get(key)?.stored.value : undefined;
    if (pod === undefined || !this.#written.has(key)) return pod;
    if (!Bun.deepEquals(recordOfPod(pod), this.#written.get(key))) return undefined;
    this.#written.delete(key);
    return pod;
  }

  #note(endpoint: EndpointKey, record: EndpointRecord | undefined): void {
    const pod = podOf(endpoint);
    if (pod === undefined) return;
    this.#written.delete(keyOf(pod));
    this.#written.set(keyOf(pod), record);
    const [oldest] = this.#written.keys();
    if (this.#written.size > MOST_WRITTEN && oldest !== undefined) this.#written.delete(oldest);
  }
}

function recordOf({ containerID, ipNetworks }: WorkloadEndpoint): EndpointRecord | undefined {
  return ipNetworks.length === 0 ? undefined : { containerID, ipNetworks };
}

function keyOf({ namespace, name }: NamespacedName): string {
  return `${namespace}/${name}`;
}
