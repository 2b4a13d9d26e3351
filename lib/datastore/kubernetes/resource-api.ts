/** Requests for custom resources as texts: paths, pages and preconditions, without any notion of what the objects mean. */

import { messageOf } from "../../errors/errors.ts";
import type { Fields } from "../../json/decode.ts";
import type { ApiClient } from "../../kubernetes/api-client.ts";
import { preconditionsOf } from "../../kubernetes/objects.ts";
import { type Page, pagesOf, parsePage, type Selectors } from "../../kubernetes/pages.ts";
import type { ApiGroup } from "../calico/group.ts";
import { DatastoreError } from "../errors.ts";
import { hasStatus } from "./as-datastore-error.ts";

/** Finding out what became of a write must not take as long as the write has taken already. */
const SECOND_LOOK_MS = 5_000;

export class ResourceApi {
  readonly #client: ApiClient;
  readonly group: () => Promise<ApiGroup>;

  constructor(client: ApiClient, group: () => Promise<ApiGroup>) {
    this.#client = client;
    this.group = group;
  }

  /** @throws ApiError */
  get(plural: string, name: string): Promise<string> {
    return this.#send("GET", plural, `/${name}`);
  }

  /** As `get`, with a short limit. */
  lookAgain(plural: string, name: string): Promise<string> {
    return this.#send("GET", plural, `/${name}`, undefined, SECOND_LOOK_MS);
  }

  /** @param object JSON, as of `put` */
  post(plural: string, object: string): Promise<string> {
    return this.#send("POST", plural, "", object);
  }

  put(plural: string, name: string, object: string): Promise<string> {
    return this.#send("PUT", plural, `/${name}`, object);
  }

  /** The server compares both the uid and the revision, in the transaction that removes the object. */
  async delete(plural: string, name: string, revision: string): Promise<void> {
    const options = { apiVersion: "v1", kind: "DeleteOptions", preconditions: preconditionsOf(revision) };
    await this.#send("DELETE", plural, `/${name}`, JSON.stringify(options));
  }

  /**
   * Every object in name order, as of one moment.
   * @param prepare the text of a page before it is parsed
   * @throws ApiError; DatastoreError `invalid` when the answer is no list
   */
  list(plural: string, labelSelector: string, mayBeOld: boolean, prepare: (json: string) => string): Promise<readonly Fields[]> {
    return listPages(async (query) => prepare(await this.#send("GET", plural, query)), { labelSelector }, mayBeOld);
  }

  async #send(method: "GET" | "POST" | "PUT" | "DELETE", plural: string, rest: string, body?: string, timeoutMs?: number): Promise<string> {
    return this.#client.request({ method, path: `/apis/${await this.group()}/${plural}${rest}`, body, timeoutMs });
  }
}

/** A list whose pages took longer than etcd keeps old revisions is read anew. */
const MOST_ATTEMPTS = 3;
const EXPIRED = 410;

/**
 * Every object of a list, as of one moment.
 *
 * @param ask sends a GET with this query, which begins with "?", and gives the text of the page
 * @throws DatastoreError `invalid` when a page is no list; what `ask` throws
 */
export async function listPages(
  ask: (query: string) => Promise<string>,
  selectors: Selectors = {},
  mayBeOld = false,
): Promise<readonly Fields[]> {
  const read = async (query: string) => asPage(await ask(query));
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

function asPage(answer: string): Page {
  try {
    return parsePage(answer);
  } catch (error) {
    throw new DatastoreError("invalid", `the server's list cannot be read: ${messageOf(error)}`, error);
  }
}
