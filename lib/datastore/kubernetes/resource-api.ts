/** Requests for custom resources as texts: paths and pages, without any notion of what the objects mean. */

import { messageOf } from "../../errors/errors.ts";
import type { Fields } from "../../json/decode.ts";
import type { ApiClient, HttpMethod } from "../../kubernetes/api-client.ts";
import { type Page, pagesOf, parsePage, type Selectors } from "../../kubernetes/pages.ts";
import type { Codec } from "../calico/codec.ts";
import type { ApiGroup } from "../calico/group.ts";
import { DatastoreError } from "../errors.ts";
import { hasStatus } from "./as-datastore-error.ts";

type Plural = Codec<unknown, unknown>["plural"];

export class ResourceApi {
  readonly #client: ApiClient;
  readonly group: () => Promise<ApiGroup>;

  constructor(client: ApiClient, group: () => Promise<ApiGroup>) {
    this.#client = client;
    this.group = group;
  }

  /** @param rest of the path, behind the name of the collection @returns the text of the answer @throws ApiError */
  async send(method: HttpMethod, plural: Plural, rest: string, body?: string, timeoutMs?: number): Promise<string> {
    const group = await this.group();
    return this.#client.request({ method, path: `/apis/${group}/${plural(group)}${rest}`, body, timeoutMs });
  }

  /**
   * Every object in name order, as of one moment.
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
