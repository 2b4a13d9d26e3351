/** Requests for custom resources as texts: paths, pages and preconditions, without any notion of what the objects mean. */
import type { ApiClient } from "../../kubernetes/api-client.ts";
import { hasStatus } from "../../kubernetes/core/failures.ts";
import { type Fields, objects, parseKubernetesObject, preconditionsOf, section, text } from "../../kubernetes/core/metadata.ts";
import type { ApiGroup } from "./group.ts";

/** Calico's page size (I§2.1). */
const PAGE = 500;
/** A list whose pages took longer than etcd keeps old revisions is read anew. */
const MOST_LIST_ATTEMPTS = 3;
const EXPIRED = 410;
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

  post(plural: string, object: object): Promise<string> {
    return this.#send("POST", plural, "", object);
  }

  put(plural: string, name: string, object: object): Promise<string> {
    return this.#send("PUT", plural, `/${name}`, object);
  }

  /** The server compares both the uid and the revision, in the transaction that removes the object. */
  async delete(plural: string, name: string, revision: string): Promise<void> {
    await this.#send("DELETE", plural, `/${name}`, {
      apiVersion: "v1",
      kind: "DeleteOptions",
      preconditions: preconditionsOf(revision),
    });
  }

  /**
   * Every object in name order, as of one moment.
   * @param selector of labels, in the API's own language; empty for all
   * @throws ApiError; Error when the answer is no list
   */
  async list(plural: string, selector: string, prepare: (json: string) => string): Promise<readonly Fields[]> {
    const query = `${selector === "" ? "" : `labelSelector=${encodeURIComponent(selector)}&`}limit=${PAGE}`;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#pages(plural, query, prepare);
      } catch (error) {
        if (!hasStatus(error, EXPIRED) || attempt === MOST_LIST_ATTEMPTS) throw error;
      }
    }
  }

  async #pages(plural: string, query: string, prepare: (json: string) => string): Promise<readonly Fields[]> {
    const found: Fields[] = [];
    let next = "";
    do {
      const more = next === "" ? "" : `&continue=${encodeURIComponent(next)}`;
      const page = parseKubernetesObject(prepare(await this.#send("GET", plural, `?${query}${more}`)));
      for (const item of objects(page, "items")) found.push(item);
      next = text(section(page, "metadata"), "continue");
    } while (next !== "");
    return found;
  }

  async #send(method: "GET" | "POST" | "PUT" | "DELETE", plural: string, rest: string, body?: object, timeoutMs?: number): Promise<string> {
    return this.#client.request({
      method,
      path: `/apis/${await this.group()}/${plural}${rest}`,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    });
  }
}
