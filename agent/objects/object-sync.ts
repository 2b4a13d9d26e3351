/**
 * Keeps the object of each pod equal to its endpoint (A§6.3): one controller an endpoint, which looks at what the watch shows and asks
 * the server only when something differs. Whose an object is, its pod's UID and its node say; a name alone proves nothing.
 */

import type { RecordedObject } from "../../handover/record.ts";
import type { NamespacedName, Pod } from "../../lib/kubernetes/objects.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import type { Tasks } from "../../lib/resident/tasks.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import type { NumberedLabels } from "../policy/identities/lookup.ts";
import type { DeleteJobs } from "./delete-jobs.ts";
import {
  contentOf,
  type NodeFacts,
  newObject,
  type ObjectContent,
  type ObjectEndpoint,
  type StoredEndpoint,
  shownEndpoint,
  specPatch,
  statePatch,
} from "./endpoint-object.ts";
import { isRefused, type ObjectApi } from "./object-api.ts";

const INTERVAL_MS = 10_000;
/** A run that conflicts makes three requests: they stay below one a second. */
const ERROR_BASE_MS = 5_000;
/** For so long what the server answered to us counts more than what the watch shows. */
const WATCH_LAG_MS = 10_000;

/** What the agent has of endpoints and pods. */
export interface ObjectSource {
  /** Lists endpoints of pods, committed and not being removed. */
  endpoints(): readonly ObjectEndpoint[];
  /** Reads a pod of this node from the watch; `undefined` when it is not known, or gone. */
  pod(key: string): Pick<Pod, "uid" | "ports"> | undefined;
  /** Finds the number of the pod's labels; `undefined` while it is not known. */
  identity(endpoint: Pick<ObjectEndpoint, "pod" | "podUID">): NumberedLabels | undefined;
  /** Keeps the object's identity in the endpoint's record. */
  remember(id: number, object: RecordedObject): void;
}

interface ObjectSyncOptions {
  readonly node: NodeFacts;
  readonly api: ObjectApi;
  readonly jobs: DeleteJobs;
  readonly source: ObjectSource;
  /** The objects of this node. */
  readonly cache: ResourceCache<StoredEndpoint>;
  readonly controllers: Tasks;
  readonly clock: Clock;
  /** Called for an object that another node has made for a pod of this one; `undefined` when that is over. */
  readonly onForeign: (pod: string, node: string | undefined) => void;
}

interface Known {
  readonly object: StoredEndpoint;
  readonly since: number;
}

export class ObjectSync {
  readonly #options: ObjectSyncOptions;
  /** What the server last answered of a pod's object. */
  readonly #known = new Map<string, Known>();

  constructor(options: ObjectSyncOptions) {
    this.#options = options;
  }

  /** Notes that an endpoint was committed, restored or changed: its object follows behind the caller. */
  changed(endpoint: Pick<ObjectEndpoint, "id">): void {
    const { controllers } = this.#options;
    if (controllers.trigger(controllerOf(endpoint))) return;
    controllers.update(controllerOf(endpoint), {
      run: (signal) => this.#sync(endpoint.id, signal),
      intervalMs: INTERVAL_MS,
      errorBaseMs: ERROR_BASE_MS,
      quiet: true,
    });
  }

  /**
   * Removes the object of an endpoint that is no longer among the source's, or lets it show another endpoint of the pod. The deletion is
   * durable when this returns.
   */
  async removed(endpoint: ObjectEndpoint): Promise<void> {
    const { controllers, source, jobs, onForeign } = this.#options;
    await controllers.remove(controllerOf(endpoint));
    const others = source.endpoints().filter((other) => other.id !== endpoint.id && isOfSamePod(other, endpoint));
    const heir = shownEndpoint(others);
    if (heir !== undefined) return this.changed(heir);
    const object = this.#ownObject(endpoint);
    if (this.#known.get(endpoint.pod)?.object.spec.podUID === endpoint.podUID) this.#known.delete(endpoint.pod);
    onForeign(endpoint.pod, undefined);
    if (object !== undefined) jobs.add({ ...keyOf(endpoint.pod), ...object });
  }

  /** Finds the endpoint's object as far as it is known without asking. */
  #ownObject({ pod, podUID, object }: ObjectEndpoint): RecordedObject | undefined {
    const { cache, node } = this.#options;
    const seen = [this.#known.get(pod)?.object, cache.get(pod)].find(
      (stored) => stored !== undefined && stored.spec.podUID === podUID && stored.spec.node === node.name,
    );
    return seen === undefined ? object : { uid: seen.uid, resourceVersion: seen.resourceVersion };
  }

  async #sync(id: number, signal: AbortSignal): Promise<void> {
    const { source, node } = this.#options;
    const all = source.endpoints();
    const endpoint = all.find((one) => one.id === id);
    if (endpoint === undefined) return;
    if (shownEndpoint(all.filter((other) => isOfSamePod(other, endpoint)))?.id !== id) return;
    const pod = source.pod(endpoint.pod);
    // We have no object for a pod that is gone, or was made again.
    if (pod?.uid !== endpoint.podUID) return;
    const content = contentOf(endpoint, node, pod, source.identity(endpoint));
    const there = await this.#localCopy(endpoint);
    if (signal.aborted) return;
    if (there === undefined) await this.#create(endpoint, content, signal);
    else await this.#settle(endpoint, content, there, signal);
  }

  /** Reads the object as far as it is known here, and asks the server only about one that an earlier process made. */
  async #localCopy(endpoint: ObjectEndpoint): Promise<StoredEndpoint | undefined> {
    const { cache, clock } = this.#options;
    const known = this.#known.get(endpoint.pod);
    if (!cache.isUsable) return known?.object ?? (endpoint.object === undefined ? undefined : this.#read(endpoint.pod));
    const seen = cache.get(endpoint.pod);
    const isLagging =
      known !== undefined && clock.now() - known.since < WATCH_LAG_MS && seen?.resourceVersion !== known.object.resourceVersion;
    return isLagging ? known.object : seen;
  }

  async #read(pod: string): Promise<StoredEndpoint | undefined> {
    try {
      return await this.#options.api.get(keyOf(pod));
    } catch (error) {
      if (isRefused(error, "not-found")) return undefined;
      throw error;
    }
  }

  async #create(endpoint: ObjectEndpoint, content: ObjectContent, signal: AbortSignal): Promise<void> {
    const { api } = this.#options;
    let made: StoredEndpoint;
    try {
      made = await api.create(keyOf(endpoint.pod), newObject(endpoint, content));
    } catch (error) {
      if (!isRefused(error, "already-exists")) throw error;
      const there = await this.#read(endpoint.pod);
      if (there === undefined) throw error;
      if (!signal.aborted) await this.#settle(endpoint, content, there, signal);
      return;
    }
    this.#note(endpoint, made);
    await this.#patchState(endpoint, content, made);
  }

  /** Makes an object that is there say what it should, where it is ours to write. */
  async #settle(endpoint: ObjectEndpoint, content: ObjectContent, there: StoredEndpoint, signal: AbortSignal): Promise<void> {
    const { api, node, jobs, onForeign } = this.#options;
    const { uid, resourceVersion } = there;
    if (there.spec.podUID !== endpoint.podUID) {
      await api.delete(keyOf(endpoint.pod), { uid, resourceVersion });
      if (!signal.aborted) await this.#create(endpoint, content, signal);
      return;
    }
    if (there.spec.node !== node.name) return onForeign(endpoint.pod, String(there.spec.node));
    onForeign(endpoint.pod, undefined);
    jobs.cancel(uid);
    try {
      await this.#patch(endpoint, content, there);
    } catch (error) {
      if (!isRefused(error, "conflict")) throw error;
      const fresh = await this.#read(endpoint.pod);
      if (fresh?.uid !== uid || signal.aborted) throw error;
      await this.#patch(endpoint, content, fresh);
    }
  }

  async #patch(endpoint: ObjectEndpoint, content: ObjectContent, there: StoredEndpoint): Promise<void> {
    const patch = specPatch(there, content);
    const now = patch === undefined ? there : await this.#options.api.patch(keyOf(endpoint.pod), patch);
    this.#note(endpoint, now);
    await this.#patchState(endpoint, content, now);
  }

  async #patchState(endpoint: ObjectEndpoint, content: ObjectContent, there: StoredEndpoint): Promise<void> {
    const patch = statePatch(there, content);
    if (patch !== undefined) this.#note(endpoint, await this.#options.api.patchStatus(keyOf(endpoint.pod), patch));
  }

  #note({ id, pod, object }: ObjectEndpoint, stored: StoredEndpoint): void {
    const { source, clock } = this.#options;
    const { uid, resourceVersion } = stored;
    if (this.#known.get(pod)?.object.resourceVersion === resourceVersion) return;
    this.#known.set(pod, { object: stored, since: clock.now() });
    if (object?.uid !== uid) source.remember(id, { uid, resourceVersion });
  }
}

function controllerOf({ id }: Pick<ObjectEndpoint, "id">): string {
  return `sync-endpoint-object (${id})`;
}

function keyOf(pod: string): NamespacedName {
  const [namespace = "", name = ""] = pod.split("/");
  return { namespace, name };
}

function isOfSamePod(one: ObjectEndpoint, other: ObjectEndpoint): boolean {
  return one.pod === other.pod && one.podUID === other.podUID;
}
