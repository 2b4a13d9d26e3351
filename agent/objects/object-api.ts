/** Requests for endpoint objects: within one rate for all of them, and refusals as what they mean (A§6.3, item 6). */

import { type Fields, parseObject } from "../../lib/json/decode.ts";
import type { ApiCall } from "../../lib/kubernetes/api-client.ts";
import { statusError } from "../../lib/kubernetes/client/answers.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { TokenBucket } from "../../lib/kubernetes/client/limits.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { decodeStored, GROUP, PLURAL, type StoredEndpoint, VERSION } from "./endpoint-object.ts";

export interface ObjectKey {
  readonly namespace: string;
  readonly name: string;
}

/** What must still be so when the server deletes. */
interface Preconditions {
  readonly uid: string;
  readonly resourceVersion?: string | undefined;
}

type Refusal = "not-found" | "already-exists" | "conflict";

/** Reports a refusal that says something about the object, not about the request. */
class ObjectRefused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal, cause: unknown) {
    super(`the API server refused: ${refusal}`, { cause });
    this.name = "ObjectRefused";
    this.refusal = refusal;
  }
}

export type ObjectConnection = Pick<ApiConnection, "exchange" | "redact">;

interface ObjectApiOptions {
  readonly clock: Clock;
  /** `--object-qps`; four times as many may go out at once. */
  readonly qps: number;
}

const MERGE = "application/merge-patch+json";

export class ObjectApi {
  readonly #connection: ObjectConnection;
  readonly #clock: Clock;
  readonly #bucket: TokenBucket;

  constructor(connection: ObjectConnection, { clock, qps }: ObjectApiOptions) {
    this.#connection = connection;
    this.#clock = clock;
    this.#bucket = new TokenBucket(qps, qps * 4, clock.now());
  }

  /** @throws ObjectRefused `not-found`; an error of the connection */
  get(key: ObjectKey): Promise<StoredEndpoint> {
    return this.#ask({ method: "GET", path: pathOf(key) });
  }

  /** @throws ObjectRefused `already-exists`, `not-found` where the namespace does not exist */
  create({ namespace }: ObjectKey, object: Fields): Promise<StoredEndpoint> {
    return this.#ask({ method: "POST", path: pathOf({ namespace }), body: JSON.stringify(object) }, "already-exists");
  }

  /** Merges; the patch carries the resourceVersion that it was made from. @throws ObjectRefused `conflict`, `not-found` */
  patch(key: ObjectKey, patch: Fields): Promise<StoredEndpoint> {
    return this.#ask({ method: "PATCH", path: pathOf(key), body: JSON.stringify(patch), contentType: MERGE });
  }

  /** Merges into the status, as `patch` does. */
  patchStatus(key: ObjectKey, patch: Fields): Promise<StoredEndpoint> {
    return this.#ask({ method: "PATCH", path: `${pathOf(key)}/status`, body: JSON.stringify(patch), contentType: MERGE });
  }

  /** @throws ObjectRefused `conflict` when the object has been replaced or changed, `not-found` */
  async delete(key: ObjectKey, { uid, resourceVersion }: Preconditions): Promise<void> {
    const body = JSON.stringify({ preconditions: { uid, resourceVersion } });
    await this.#send({ method: "DELETE", path: pathOf(key), body }, "conflict");
  }

  async #ask(call: ApiCall, conflict: Refusal = "conflict"): Promise<StoredEndpoint> {
    return decodeStored(parseObject(await this.#send(call, conflict)));
  }

  async #send(call: ApiCall, conflict: Refusal): Promise<string> {
    const wait = this.#bucket.take(this.#clock.now());
    if (wait > 0) await this.#clock.sleep(wait);
    const answer = await this.#connection.exchange(call);
    const { status, body } = answer;
    if (status < 300) return body;
    const error = statusError(`${call.method} ${call.path}`, { ...answer, body: this.#connection.redact(body) }, false);
    if (status === 404) throw new ObjectRefused("not-found", error);
    if (status === 409) throw new ObjectRefused(conflict, error);
    throw new Error(`the API server answered ${status}`, { cause: error });
  }
}

function pathOf({ namespace, name }: Pick<ObjectKey, "namespace"> & Partial<ObjectKey>): string {
  const [within, object] = [namespace, name].map((part) => part && encodeURIComponent(part));
  return `/apis/${GROUP}/${VERSION}/namespaces/${within}/${PLURAL}${object === undefined ? "" : `/${object}`}`;
}

export function isRefused(error: unknown, refusal: Refusal): boolean {
  return error instanceof ObjectRefused && error.refusal === refusal;
}
