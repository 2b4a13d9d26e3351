/** Requests for endpoint objects: typed, within one rate for all of them, and refusals as what they mean (A§6.3, item 6). */

import { createConfiguration } from "@kubernetes/client-node/dist/gen/configuration.js";
import {
  type HttpLibrary,
  type PromiseHttpLibrary,
  type RequestContext,
  ResponseContext,
  wrapHttpLibrary,
} from "@kubernetes/client-node/dist/gen/http/http.js";
import type { PromiseMiddleware } from "@kubernetes/client-node/dist/gen/middleware.js";
import { ServerConfiguration } from "@kubernetes/client-node/dist/gen/servers.js";
import { ObjectCustomObjectsApi } from "@kubernetes/client-node/dist/gen/types/ObjectParamAPI.js";
import { type Fields, isObject } from "../../lib/json/decode.ts";
import type { ApiCall, HttpMethod } from "../../lib/kubernetes/api-client.ts";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { TokenBucket } from "../../lib/kubernetes/client/limits.ts";
import type { NamespacedName } from "../../lib/kubernetes/objects.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { decodeStored, GROUP, PLURAL, type StoredEndpoint, VERSION } from "./endpoint-object.ts";

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

interface ObjectApiOptions {
  readonly clock: Clock;
  /** `--object-qps`; four times as many may go out at once. */
  readonly qps: number;
}

/** The requests of the generated client that are used here. */
export type CustomObjects = Pick<
  ObjectCustomObjectsApi,
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

  constructor(custom: CustomObjects, { clock, qps }: ObjectApiOptions) {
    this.#custom = custom;
    this.#clock = clock;
    this.#bucket = new TokenBucket(qps, qps * 4, clock.now());
  }

  /** @throws ObjectRefused `not-found`; an error of the client */
  get(key: NamespacedName): Promise<StoredEndpoint> {
    return this.#ask(() => this.#custom.getNamespacedCustomObject({ ...WHERE, ...key }));
  }

  /** @throws ObjectRefused `already-exists`, `not-found` where the namespace does not exist */
  create({ namespace }: NamespacedName, object: Fields): Promise<StoredEndpoint> {
    return this.#ask(() => this.#custom.createNamespacedCustomObject({ ...WHERE, namespace, body: object }), "already-exists");
  }

  /** Merges; the patch carries the resourceVersion that it was made from. @throws ObjectRefused `conflict`, `not-found` */
  patch(key: NamespacedName, patch: Fields): Promise<StoredEndpoint> {
    return this.#ask(() => this.#custom.patchNamespacedCustomObject({ ...WHERE, ...key, body: patch }));
  }

  /** Merges into the status, as `patch` does. */
  patchStatus(key: NamespacedName, patch: Fields): Promise<StoredEndpoint> {
    return this.#ask(() => this.#custom.patchNamespacedCustomObjectStatus({ ...WHERE, ...key, body: patch }));
  }

  /** @throws ObjectRefused `conflict` when the object has been replaced or changed, `not-found` */
  async delete(key: NamespacedName, { uid, resourceVersion }: Preconditions): Promise<void> {
    await this.#send(
      () => this.#custom.deleteNamespacedCustomObject({ ...WHERE, ...key, body: { preconditions: { uid, resourceVersion } } }),
      "conflict",
    );
  }

  async #ask(send: () => Promise<unknown>, conflict: Refusal = "conflict"): Promise<StoredEndpoint> {
    const object = await this.#send(send, conflict);
    if (!isObject(object)) throw new Error("the API server answered something that is not an object");
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

/**
 * Makes a typed client of the API server. Loads only the generated part of @kubernetes/client-node: with the rest of the package (exec,
 * websockets, OpenID) the agent would need 18 MiB more.
 */
export function customObjects(connection: ApiConnection): CustomObjects {
  const configuration = createConfiguration({
    baseServer: new ServerConfiguration(ANY_SERVER, {}),
    httpApi: httpLibrary(connection),
    promiseMiddleware: [patchesAreMerged],
  });
  return new ObjectCustomObjectsApi(configuration);
}

/** The generated code names the first kind of patch that the server takes, a list of operations; ours are objects to be merged. */
const patchesAreMerged: PromiseMiddleware = {
  async pre(request) {
    if (request.getHttpMethod() === "PATCH") request.setHeaderParam("Content-Type", "application/merge-patch+json");
    return request;
  },
  post: async (response) => response,
};

/** Reads the HTTP status of a generated client's refusal; 0 for any other error. */
function statusOfRefusal(error: unknown): number {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : 0;
}

/** The host of the URLs that the generated clients make; only path and query of them are used. */
const ANY_SERVER = "http://server";

/**
 * Runs the generated clients of @kubernetes/client-node on our own connection. Their own HTTP library hands TLS material to undici's
 * dispatcher, which Bun's fetch does not look at (design §4).
 */
function httpLibrary(connection: ApiConnection): HttpLibrary {
  const library: PromiseHttpLibrary = {
    async send(request) {
      const answer = await connection.exchange(callOf(request));
      const body = answer.status < 300 ? answer.body : connection.redact(answer.body);
      return new ResponseContext(
        answer.status,
        { "content-type": answer.contentType },
        {
          text: async () => body,
          binary: async () => Buffer.from(body),
          stream: () => new Blob([body]).stream(),
        },
      );
    },
  };
  return wrapHttpLibrary(library);
}

function callOf(request: RequestContext): ApiCall {
  const { pathname, search } = new URL(request.getUrl());
  const body = request.getBody();
  if (body !== undefined && typeof body !== "string") throw new TypeError("the API server is sent JSON only");
  const contentType = Object.entries(request.getHeaders()).find(([name]) => name.toLowerCase() === "content-type")?.[1];
  return { method: methodOf(request.getHttpMethod()), path: pathname + search, body, contentType };
}

const METHODS: readonly HttpMethod[] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

function methodOf(name: string): HttpMethod {
  const method = METHODS.find((known) => known === name);
  if (method === undefined) throw new TypeError(`the API server is not asked with ${name}`);
  return method;
}
