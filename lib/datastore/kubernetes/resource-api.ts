/** Requests for custom resources as texts: paths, pages and preconditions, without any notion of what the objects mean. */
import type { Fields } from "../../json/decode.ts";
import type { ApiClient } from "../../kubernetes/api-client.ts";
import { listPages } from "./core/list-pages.ts";
import { preconditionsOf } from "./core/metadata.ts";
import type { ApiGroup } from "./group.ts";

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
  list(plural: string, selector: string, mayBeOld: boolean, prepare: (json: string) => string): Promise<readonly Fields[]> {
    return listPages(async (query) => prepare(await this.#send("GET", plural, query)), { selector, mayBeOld });
  }

  async #send(method: "GET" | "POST" | "PUT" | "DELETE", plural: string, rest: string, body?: string, timeoutMs?: number): Promise<string> {
    return this.#client.request({
      method,
      path: `/apis/${await this.group()}/${plural}${rest}`,
      ...(body === undefined ? {} : { body }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    });
  }
}
