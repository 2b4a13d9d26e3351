/** Objects of the API server, read and written by plain HTTP as the administrator. Every refusal is thrown with the server's words. */
import type { Answer } from "./admin-client.ts";
import { memberAt } from "./json.ts";
import {
  type ApiObject,
  type CalicoGroup,
  calicoPlurals,
  isStoredObject,
  KUBEVIRT_KINDS,
  kindOf,
  OWN_KINDS,
  pathOf,
  type StoredObject,
} from "./resources.ts";

type Request = (method: string, path: string, body?: unknown) => Promise<Answer>;

/** Namespaces that the API server makes by itself. */
const STANDING = new Set(["default", "kube-system", "kube-public", "kube-node-lease"]);

export class ObjectStore {
  readonly #request: Request;

  constructor(request: Request) {
    this.#request = request;
  }

  /** Creates the object, or makes the stored one equal to it; with a status where one is given. */
  async apply(object: ApiObject): Promise<StoredObject> {
    const { plural, isNamespaced = false, hasStatusPath = false } = kindOf(object);
    const namespace = isNamespaced ? (object.metadata.namespace ?? "default") : undefined;
    const path = pathOf(object.apiVersion, plural, object.metadata.name, namespace);
    const stored = await this.#get(path);
    const result =
      stored === undefined
        ? await this.#must("POST", pathOf(object.apiVersion, plural, undefined, namespace), object)
        : await this.#must("PUT", path, replacementOf(stored, object));
    if (!hasStatusPath || object.status === undefined) return result;
    return this.#must("PATCH", `${path}/status`, { status: object.status });
  }

  async get(apiVersion: string, plural: string, name: string, namespace?: string): Promise<StoredObject | undefined> {
    return this.#get(pathOf(apiVersion, plural, name, namespaceOf(plural, namespace)));
  }

  /** All objects of a kind, of every namespace when none is named. */
  async list(apiVersion: string, plural: string, namespace?: string): Promise<readonly StoredObject[]> {
    const answer = await this.#request("GET", pathOf(apiVersion, plural, undefined, namespace));
    const items = memberAt(answer.body, "items");
    if (answer.status !== 200 || !Array.isArray(items)) throw refusal("GET", plural, answer);
    // The items of some lists carry no kind; the answer does.
    const kind = String(memberAt(answer.body, "kind")).replace(/List$/, "");
    return items.map((item) => ({ ...item, apiVersion, kind }));
  }

  /** Deletes an object at once, finalizers or not; nothing happens when there is none. */
  async remove(apiVersion: string, plural: string, name: string, namespace?: string): Promise<void> {
    const path = pathOf(apiVersion, plural, name, namespaceOf(plural, namespace));
    const answer = await this.#request("DELETE", path, { gracePeriodSeconds: 0, propagationPolicy: "Background" });
    if (answer.status === 404) return;
    if (answer.status >= 300) throw refusal("DELETE", path, answer);
    if (plural === "namespaces") {
      // No controller manager empties it and lets it go.
      await this.#request("PUT", `${path}/finalize`, { apiVersion: "v1", kind: "Namespace", metadata: { name }, spec: { finalizers: [] } });
      return;
    }
    const left = await this.#get(path);
    if (left?.metadata.finalizers !== undefined) await this.#request("PATCH", path, { metadata: { finalizers: null } });
  }

  /** Deletes what tests made: Calico's objects of these groups, objects of the kinds below, and namespaces. */
  async wipe(groups: readonly CalicoGroup[]): Promise<void> {
    const kinds: readonly (readonly [string, string])[] = [
      ...groups.flatMap((group) => calicoPlurals(group).map((plural) => [group, plural] as const)),
      ...KUBEVIRT_KINDS,
      ...OWN_KINDS,
      ["v1", "pods"],
      ["v1", "nodes"],
      ["v1", "events"],
      ["apps/v1", "daemonsets"],
      ["networking.k8s.io/v1", "networkpolicies"],
    ];
    await Promise.all(
      kinds.map(async ([apiVersion, plural]) => {
        const objects = await this.list(apiVersion, plural);
        await Promise.all(objects.map(({ metadata }) => this.remove(apiVersion, plural, metadata.name, metadata.namespace)));
      }),
    );
    const namespaces = (await this.list("v1", "namespaces")).filter(({ metadata }) => !STANDING.has(metadata.name));
    await Promise.all(namespaces.map(({ metadata }) => this.remove("v1", "namespaces", metadata.name)));
  }

  async #get(path: string): Promise<StoredObject | undefined> {
    const answer = await this.#request("GET", path);
    if (answer.status === 404) return undefined;
    if (answer.status !== 200 || !isStoredObject(answer.body)) throw refusal("GET", path, answer);
    return answer.body;
  }

  async #must(method: string, path: string, body: unknown): Promise<StoredObject> {
    const answer = await this.#request(method, path, body);
    if (answer.status >= 300 || !isStoredObject(answer.body)) throw refusal(method, path, answer);
    return answer.body;
  }
}

/** A pod's spec, a namespace's and a service account's own fields cannot be replaced; what tests change is in the metadata. */
function replacementOf(stored: StoredObject, object: ApiObject): unknown {
  const { resourceVersion } = stored.metadata;
  const keepsFields = object.apiVersion === "v1" && object.kind !== "Node";
  return { ...(keepsFields ? stored : object), metadata: { ...object.metadata, resourceVersion } };
}

/** Pods and virtual machines are looked for in "default" unless told otherwise. */
function namespaceOf(plural: string, namespace: string | undefined): string | undefined {
  const isNamespaced = ["pods", "serviceaccounts", "virtualmachines", "virtualmachineinstances", "tortieendpoints"].includes(plural);
  return isNamespaced ? (namespace ?? "default") : namespace;
}

function refusal(method: string, path: string, answer: Answer): Error {
  return new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
}
