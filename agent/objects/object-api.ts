/** Requests for endpoint objects: typed, within one rate for all of them, and refusals as what they mean (A§6.3, item 6). */

import { type Fields, isObject } from "../../lib/json/decode.ts";
import { TokenBucket } from "../../lib/kubernetes/client/limits.ts";
import type { Clock } from "../../lib/system/clock.ts";
import { type KubernetesClients, statusOfRefusal } from "../kubernetes/clients.ts";
import { decodeStored, GROUP, PLURAL, type StoredEndpoint, VERSION } from "./endpoint-object.ts";

export interface ObjectKey {
  readonly namespace: string;
  readonly name: string;
}

/** What must still be so when the server deletes. */
export interface Preconditions {
  readonly uid: string;
  readonly resourceVersion?: string | undefined;
}

export type Refusal = "not-found" | "already-exists" | "conflict";

/** A refusal that says something about the object, not about the request. */
class ObjectRefused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal, cause: unknown) {
    super(`the API server refused: ${refusal}`, { cause });
    this.name = "ObjectRefused";
    this.refusal = refusal;
  }
}

export interface ObjectApiOptions {
  readonly clock: Clock;
  /** `--object-qps`; four times as many may go out at once. */
  readonly qps: number;
}

/** The requests of the generated client that are used here. */
type CustomObjects = Pick<
  KubernetesClients["custom"],
  | "getNamespacedCustomObject"
  | "createNamespacedCustomObject"
  | "patchNamespacedCustomObject"
  | "patchNamespacedCustomObjectStatus"
  | "deleteNamespacedCustomObject"
>;

const WHERE = { group: GROUP, version: VERSION, plural: PLURAL };

export class ObjectApi {
  readonly #custom: CustomObjects;
  readonly #clock: Clock;
  readonly #bucket: TokenBucket;

  constructor({ custom }: { readonly custom: CustomObjects }, { clock, qps }: ObjectApiOptions) {
    this.#custom = custom;
    this.#clock = clock;
    this.#bucket = new TokenBucket(qps, qps * 4, clock.now());
  }

  /** @throws ObjectRefused `not-found`; an error of the client */
  get(key: ObjectKey): Promise<StoredEndpoint> {
    return this.#ask(() => this.#custom.getNamespacedCustomObject({ ...WHERE, ...key }));
  }

  /** @throws ObjectRefused `already-exists`, `not-found` where the namespace is none */
  create({ namespace }: ObjectKey, object: Fields): Promise<StoredEndpoint> {
    return this.#ask(() => this.#custom.createNamespacedCustomObject({ ...WHERE, namespace, body: object }), "already-exists");
  }

  /** Merges; the patch carries the resourceVersion that it was made from. @throws ObjectRefused `conflict`, `not-found` */
  patch(key: ObjectKey, patch: Fields): Promise<StoredEndpoint> {
    return this.#ask(() => this.#custom.patchNamespacedCustomObject({ ...WHERE, ...key, body: patch }));
  }

  /** As `patch`, of the status. */
  patchStatus(key: ObjectKey, patch: Fields): Promise<StoredEndpoint> {
    return this.#ask(() => this.#custom.patchNamespacedCustomObjectStatus({ ...WHERE, ...key, body: patch }));
  }

  /** @throws ObjectRefused `conflict` when the object is another one by now, `not-found` */
  async delete(key: ObjectKey, { uid, resourceVersion }: Preconditions): Promise<void> {
    const preconditions = { uid, ...(resourceVersion !== undefined && { resourceVersion }) };
    await this.#send(() => this.#custom.deleteNamespacedCustomObject({ ...WHERE, ...key, body: { preconditions } }), "conflict");
  }

  async #ask(send: () => Promise<unknown>, conflict: Refusal = "conflict"): Promise<StoredEndpoint> {
    const object = await this.#send(send, conflict);
    if (!isObject(object)) throw new Error("the API server answered something that is no object");
    return decodeStored(object);
  }

  async #send(send: () => Promise<unknown>, conflict: Refusal): Promise<unknown> {
    const wait = this.#bucket.take(this.#clock.now());
    if (wait > 0) await this.#clock.sleep(wait);
    try {
      return await send();
    } catch (error) {
      const status = statusOfRefusal(error);
      if (status === 404) throw new ObjectRefused("not-found", error);
      if (status === 409) throw new ObjectRefused(conflict, error);
      throw status === 0 ? error : new Error(`the API server answered ${status}`, { cause: error });
    }
  }
}

export function isRefused(error: unknown, refusal: Refusal): boolean {
  return error instanceof ObjectRefused && error.refusal === refusal;
}
