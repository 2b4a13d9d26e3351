/** Implements KubernetesCore on the API server: one request an operation, namespaces and nodes read once an operation. */
import { type Fields, parseObject, text } from "../../json/decode.ts";
import type { ApiClient } from "../../kubernetes/api-client.ts";
import {
  type ClusterNode,
  decodeNamespace,
  decodeNode,
  decodePod,
  metadataOf,
  type Namespace,
  type NamespacedName,
  type Pod,
  revisionOf,
} from "../../kubernetes/objects.ts";
import { isSubdomain } from "../../system/subdomain.ts";
import { decoded } from "../calico/codec.ts";
import type { KubernetesCore, Reader, Versioned, VirtualMachines } from "../datastore.ts";
import type { OwnedObject } from "../resources.ts";
import { failureOf, hasStatus, listPages } from "./resource-api.ts";

const NOT_FOUND = 404;
/** How long the labels of a node or namespace count as read: for the steps of one operation, not the next operation. */
const REMEMBERED_MS = 1000;
const VERSION = "version of the API server";

export interface Patch {
  readonly contentType: string;
  readonly body: string;
}

export class ApiCore implements KubernetesCore {
  readonly #client: ApiClient;
  readonly #namespaces = new Memo<Namespace>();
  readonly #nodes = new Memo<ClusterNode>();

  constructor(client: ApiClient) {
    this.#client = client;
  }

  async pod(key: NamespacedName): Promise<Pod | undefined> {
    if (!isSubdomain(key.namespace) || !isSubdomain(key.name)) return undefined;
    return (await this.read(podPath(key), `Pod(${key.namespace}/${key.name})`, decodePod))?.value;
  }

  async namespace(name: string): Promise<Namespace | undefined> {
    return (await this.versionedNamespace(name))?.value;
  }

  async node(name: string): Promise<ClusterNode | undefined> {
    return (await this.versionedNode(name))?.value;
  }

  versionedNamespace(name: string): Promise<Versioned<Namespace> | undefined> {
    return this.#namespaces.get(name, () => this.#named(name, `/api/v1/namespaces/${name}`, `Namespace(${name})`, decodeNamespace));
  }

  versionedNode(name: string): Promise<Versioned<ClusterNode> | undefined> {
    return this.#nodes.get(name, () => this.#named(name, `/api/v1/nodes/${name}`, `Node(${name})`, decodeNode));
  }

  async serverVersion(timeoutMs: number): Promise<string> {
    try {
      const answer = await this.#client.request({ method: "GET", path: "/version", timeoutMs });
      return decoded(VERSION, () => text(parseObject(answer), "gitVersion"));
    } catch (error) {
      throw failureOf(error, VERSION);
    }
  }

  /** Patches the status sub-resource, of a pod with a legal name. @returns the pod as it is then, in JSON @throws ApiError */
  patchStatus(pod: NamespacedName, { contentType, body }: Patch): Promise<string> {
    return this.#client.request({ method: "PATCH", path: `${podPath(pod)}/status`, contentType, body });
  }

  /** Lists every pod of the cluster, in pages. @throws DatastoreError `unauthorized` for an account that may not list pods */
  async listPods(): Promise<readonly Pod[]> {
    const what = "list of pods";
    try {
      const items = await listPages((query) => this.#client.request({ method: "GET", path: `/api/v1/pods${query}` }));
      return items.map((item) => decoded(what, () => decodePod(item)));
    } catch (error) {
      throw failureOf(error, what);
    }
  }

  /** @returns `undefined` on 404 @throws DatastoreError */
  async read<T>(path: string, what: string, decode: (object: Fields) => T): Promise<Versioned<T> | undefined> {
    let answer: string;
    try {
      answer = await this.#client.request({ method: "GET", path });
    } catch (error) {
      if (hasStatus(error, NOT_FOUND)) return undefined;
      throw failureOf(error, what);
    }
    return decoded(what, () => {
      const object = parseObject(answer);
      return { value: decode(object), revision: revisionOf(metadataOf(object)) };
    });
  }

  async #named<T>(name: string, path: string, what: string, decode: (object: Fields) => T): Promise<Versioned<T> | undefined> {
    return isSubdomain(name) ? this.read(path, what, decode) : undefined;
  }
}

/** Objects by name, each read once for all requests within `REMEMBERED_MS`; a failed read is tried again by the next request. */
class Memo<T> {
  readonly #reads = new Map<string, { readonly began: number; readonly answer: Promise<Versioned<T> | undefined> }>();

  get(name: string, read: () => Promise<Versioned<T> | undefined>): Promise<Versioned<T> | undefined> {
    const now = performance.now();
    // In the order in which they began.
    for (const [other, { began }] of this.#reads) {
      if (now - began < REMEMBERED_MS) break;
      this.#reads.delete(other);
    }
    const known = this.#reads.get(name);
    if (known !== undefined) return known.answer;
    const reading = { began: now, answer: read() };
    this.#reads.set(name, reading);
    reading.answer.catch(() => {
      if (this.#reads.get(name) === reading) this.#reads.delete(name);
    });
    return reading.answer;
  }
}

/** Takes names that passed isSubdomain: "..", "a/b" and "A" are no legal names. */
function podPath({ namespace, name }: NamespacedName): string {
  return `/api/v1/namespaces/${namespace}/pods/${name}`;
}

/** Answers what the allocator asks of pods and of KubeVirt's objects (I§1.9). Without KubeVirt there is no such object: 404 as well. */
export function kubernetesVirtualMachines(core: ApiCore): VirtualMachines {
  return {
    pods: objectsAt(core, "/api/v1", "pods"),
    instances: objectsAt(core, "/apis/kubevirt.io/v1", "virtualmachineinstances"),
    machines: objectsAt(core, "/apis/kubevirt.io/v1", "virtualmachines"),
  };
}

function objectsAt(core: ApiCore, root: string, plural: string): Reader<NamespacedName, OwnedObject> {
  return {
    async get({ namespace, name }) {
      if (!isSubdomain(namespace) || !isSubdomain(name)) return undefined;
      return core.read(`${root}/namespaces/${namespace}/${plural}/${name}`, `${plural}(${namespace}/${name})`, decodeOwned);
    },
  };
}

function decodeOwned(object: Fields): OwnedObject {
  const { namespace, name, uid, labels, owners, isDeleting } = metadataOf(object);
  return { namespace, name, uid, labels, owners, isDeleting };
}
