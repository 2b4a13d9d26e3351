/** Requests custom resources as texts, in paths and pages, and says what a refused request means to the datastore port (C§7.6). */
import type { ErrorWord } from "../../errors/errors.ts";
import type { Fields } from "../../json/decode.ts";
import type { ApiClient, HttpMethod } from "../../kubernetes/api-client.ts";
import { ApiError, pagesOf, parsePage, type Selectors } from "../../kubernetes/api-client.ts";
import type { TransportError } from "../../kubernetes/client/transport-error.ts";
import { type ApiGroup, type Codec, decoded } from "../calico/codec.ts";
import { DatastoreError, type DatastoreFailure, FAULT_WORDS } from "../errors.ts";

/** A server that does not know this form of lists sends whole objects, whose metadata are the same. */
const METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

type Plural = Codec<unknown, unknown>["plural"];

export class ResourceApi {
  readonly #client: ApiClient;
  readonly group: () => Promise<ApiGroup>;

  constructor(client: ApiClient, group: () => Promise<ApiGroup>) {
    this.#client = client;
    this.group = group;
  }

  /** Lists the metadata of every object, without labels of choice and without specifications. @throws as `list` */
  async listMetadata(plural: Plural): Promise<readonly Fields[]> {
    const group = await this.group();
    const ask = (query: string) =>
      this.#client.request({ method: "GET", path: `/apis/${group}/${plural(group)}${query}`, accept: METADATA_ONLY });
    return listPages(ask);
  }

  /** @param rest of the path, behind the name of the collection @returns the text of the answer @throws ApiError */
  async send(method: HttpMethod, plural: Plural, rest: string, body?: string, timeoutMs?: number): Promise<string> {
    const group = await this.group();
    return this.#client.request({ method, path: `/apis/${group}/${plural(group)}${rest}`, body, timeoutMs });
  }

  /**
   * Lists every object in name order, as of one moment.
   * @param prepare the text of a page before it is parsed
   * @throws ApiError; DatastoreError `invalid` when the answer is no list
   */
  list(plural: Plural, labelSelector: string, mayBeOld: boolean, prepare: Codec<unknown, unknown>["prepare"]): Promise<readonly Fields[]> {
    const ask = async (query: string) => {
      const page = await this.send("GET", plural, query);
      return prepare?.(page) ?? page;
    };
    return listPages(ask, { labelSelector }, mayBeOld);
  }
}

/** A list whose pages took longer than etcd keeps old revisions is read again. */
const MOST_ATTEMPTS = 3;
const EXPIRED = 410;

/**
 * Reads every object of a list, as of one moment.
 *
 * @param ask sends a GET with this query, which begins with "?", and gives the text of the page
 * @throws DatastoreError `invalid` when a page is no list; what `ask` throws
 */
export async function listPages(
  ask: (query: string) => Promise<string>,
  selectors: Selectors = {},
  mayBeOld = false,
): Promise<readonly Fields[]> {
  const read = async (query: string) => {
    const answer = await ask(query);
    return decoded("the server's list", () => parsePage(answer));
  };
  for (let attempt = 1; ; attempt++) {
    try {
      const found: Fields[] = [];
      for await (const { items } of pagesOf(read, selectors, mayBeOld)) for (const item of items) found.push(item);
      return found;
    } catch (error) {
      if (!hasStatus(error, EXPIRED) || attempt === MOST_ATTEMPTS) throw error;
    }
  }
}

/**
 * The messages begin as Calico's do, so that a search for those finds them.
 *
 * @param what the object: "IPAMBlock(10-0-0-0-26)"
 */
export function asDatastoreError(error: ApiError, what: string): DatastoreError {
  const failure = failureOfStatus(error);
  const fault = error.status === 403 ? "forbidden" : error.fault;
  return new DatastoreError(failure, messageFor(failure, error, what), error, fault && FAULT_WORDS[fault]);
}

function failureOfStatus(error: ApiError): DatastoreFailure {
  switch (error.status) {
    case 401:
    case 403:
      return "unauthorized";
    case 404:
      return "not-found";
    case 409:
      if (error.reason === "AlreadyExists") return "already-exists";
      // A precondition on the uid failed: a new object has that name.
      return error.explanation.includes("UID in precondition") ? "not-found" : "conflict";
    case 422:
      return invalidFailure(error);
    default:
      return error.fault !== undefined || error.status === 0 || error.status === 429 || error.status >= 500 ? "unavailable" : "invalid";
  }
}

/** Finds the word of an exchange that got no answer of a datastore. */
export function wordOfTransport({ fault }: Pick<TransportError, "fault">): ErrorWord {
  return fault === undefined ? "datastore-unavailable" : FAULT_WORDS[fault];
}

/** A patch that carries uid or resourceVersion as a precondition is refused as an attempt to change them. */
function invalidFailure({ causes }: ApiError): DatastoreFailure {
  if (causes.length > 0 && causes.every(({ field }) => field === "metadata.uid")) return "not-found";
  if (causes.length > 0 && causes.every(({ field }) => field === "metadata.resourceVersion")) return "conflict";
  return "invalid";
}

function messageFor(failure: DatastoreFailure, error: ApiError, what: string): string {
  switch (failure) {
    case "not-found":
      return `resource does not exist: ${what} with error: ${error.explanation}`;
    case "already-exists":
      return `resource already exists: ${what} with error: ${error.explanation}`;
    case "conflict":
      return `update conflict: ${what}: ${error.explanation}`;
    case "unauthorized":
      return `connection is unauthorized: ${error.explanation} (${what}; ${whatToGrant(error)})`;
    case "unavailable":
      return `${what}: ${error.message}`;
    case "invalid":
      return `${what}: ${error.explanation}`;
  }
}

/** The server's own words name the verb, the resource and the group, for it knows how roles see this request. */
function whatToGrant(error: ApiError): string {
  if (error.status === 401) return `the API server does not know ${error.identity || "these credentials"}: renew the token or certificate`;
  const words = /^([^ ]+) .*User "(.*)" cannot ([a-z]+) resource "([^"]+)" in API group "([^"]*)"/s.exec(error.explanation);
  if (words === null) return "grant it what it may not do";
  const [, , user, verb, resource, group] = words;
  return `grant user ${JSON.stringify(user)} the verb ${verb} on ${resource} in API group "${group}"`;
}

/**
 * Turns an ApiError into the datastore port's error, and leaves anything else unchanged.
 * @param what the object or list that was asked for, for the message: "IPAMBlock(10-40-0-8-29)"
 */
export function failureOf(error: unknown, what: string): unknown {
  return error instanceof ApiError ? asDatastoreError(error, what) : error;
}

/** Tells whether the server may have done what it was asked, although its answer was lost. */
export function isAnswerLost(error: unknown): boolean {
  return error instanceof ApiError && error.isRepetition;
}

export function hasStatus(error: unknown, status: number): error is ApiError {
  return error instanceof ApiError && error.status === status;
}
