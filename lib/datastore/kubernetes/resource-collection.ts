/**
 * Serves one kind of custom resource as a collection of the port. Every write is a compare-and-swap that the API server makes: a PUT or a
 * DELETE carries the uid and the resourceVersion of what was read. Two things are settled here once for all callers:
 *
 * - An object marked `deleted` is one whose deletion another client has begun (I§2.10): it counts as absent, and its deletion is finished.
 * - A write whose answer was lost may have been carried out: the object is read again, and if it is what was sent, it was.
 */

import { type Fields, parseObject, section } from "../../json/decode.ts";
import type { HttpMethod } from "../../kubernetes/api-client.ts";
import { metadataOf, preconditionsOf, revisionOf } from "../../kubernetes/objects.ts";
import { once } from "../../system/waiting.ts";
import { type Codec, decoded, isMarked, resourceOf, type Spec } from "../calico/codec.ts";
import {
  type ForeignFields,
  foreignFieldsOf,
  type KeepsForeignFields,
  type Kept,
  type OnDamaged,
  StoredKind,
} from "../calico/stored-kind.ts";
import type { Collection, ListOptions, Versioned } from "../datastore.ts";
import { DatastoreError, isDatastoreFailure } from "../errors.ts";
import type { ResourceApi } from "./resource-api.ts";
import { failureOf, hasStatus, isAnswerLost } from "./resource-api.ts";

const NOT_FOUND = 404;
const CONFLICT = 409;

/** Finding out what became of a write must not take as long as the write has taken already. */
const SECOND_LOOK_MS = 5_000;

/** How often an object marked `deleted` may turn up in the place of one that is created. */
const MOST_CREATES = 3;

export class ResourceCollection<K, T> implements Collection<K, T>, KeepsForeignFields<K, T> {
  readonly #api: ResourceApi;
  readonly #codec: Codec<K, T>;
  readonly #kind: StoredKind<T>;

  constructor(api: ResourceApi, codec: Codec<K, T>, onDamaged: OnDamaged = () => {}) {
    this.#api = api;
    this.#codec = codec;
    this.#kind = new StoredKind(codec, onDamaged);
  }

  async get(key: K): Promise<Versioned<T> | undefined> {
    const name = this.#codec.nameOf(key);
    if (name === undefined) return undefined;
    const stored = await this.#read(name);
    if (stored !== undefined && isMarked(stored)) {
      await this.#finishDeletion(name, stored);
      return undefined;
    }
    return stored && this.#decode(stored);
  }

  list(options?: ListOptions): Promise<readonly Versioned<T>[]> {
    return this.listSelected("", options);
  }

  create(key: K, value: T): Promise<Versioned<T>> {
    return this.#create(key, value);
  }

  createWith(key: K, value: T, foreign: ForeignFields): Promise<Versioned<T>> {
    return this.#create(key, value, foreign);
  }

  foreignFields(key: K, revision: string): ForeignFields | undefined {
    const name = this.#codec.nameOf(key);
    const kept = name === undefined ? undefined : this.#kind.keptAt(name, revision);
    return kept && foreignFieldsOf(kept);
  }

  async #create(key: K, value: T, foreign?: ForeignFields): Promise<Versioned<T>> {
    const name = await this.#mustName(key);
    const body = await this.#newBody(name, value, foreign);
    for (let attempt = 1; ; attempt++) {
      try {
        return this.#decodedLate(await this.#send("POST", "", JSON.stringify(body)));
      } catch (error) {
        const isTaken = hasStatus(error, CONFLICT);
        const there = isTaken || isAnswerLost(error) ? await this.#lookAgain(name, error) : undefined;
        if (there !== undefined && isAnswerLost(error) && this.#isWritten(there, body)) return this.#decode(there);
        if (there !== undefined && isMarked(there)) await this.#finishDeletion(name, there);
        else if (!isTaken || there !== undefined) throw this.#failure(name, error);
        if (attempt === MOST_CREATES) throw this.#failure(name, error);
      }
    }
  }

  async update(key: K, value: T, revision: string): Promise<Versioned<T>> {
    const name = await this.#mustName(key);
    const body = await this.#bodyOf(name, value, revision);
    try {
      return this.#decodedLate(await this.#send("PUT", `/${name}`, JSON.stringify(body)));
    } catch (error) {
      const there = isAnswerLost(error) ? await this.#lookAgain(name, error) : undefined;
      const isSame = there !== undefined && metadataOf(there).uid === preconditionsOf(revision).uid;
      if (isSame && this.#isWritten(there, body)) return this.#decode(there);
      throw this.#failure(name, error);
    }
  }

  async delete(key: K, revision: string): Promise<void> {
    const name = await this.#mustName(key);
    try {
      await this.#remove(name, revision);
    } catch (error) {
      const isGone = isAnswerLost(error) && (hasStatus(error, NOT_FOUND) || (await this.#lookAgain(name, error)) === undefined);
      if (!isGone) throw this.#failure(name, error);
    }
  }

  /** Names of all objects; their specifications are not asked for. */
  protected async listNames(): Promise<readonly string[]> {
    const items = await this.#listed(() => this.#api.listMetadata(this.#codec.plural));
    return items.map((item) => metadataOf(item).name);
  }

  async #listed(list: () => Promise<readonly Fields[]>): Promise<readonly Fields[]> {
    try {
      return await list();
    } catch (error) {
      const group = await this.#api.group();
      const hint = hasStatus(error, NOT_FOUND) ? ` of ${group} (are Calico's CRDs installed, is calico_api_group right?)` : "";
      throw failureOf(error, `list of ${this.#codec.plural(group)}${hint}`);
    }
  }

  /** Lists those whose labels match the selector, in name order; what cannot be decoded is left out. */
  async listSelected(selector: string, { mayBeOld = false }: ListOptions = {}): Promise<readonly Versioned<T>[]> {
    const { plural, prepare } = this.#codec;
    const items = await this.#listed(() => this.#api.list(plural, selector, mayBeOld, prepare));
    return this.#kind.decodeAll(
      items.filter((item) => !isMarked(item)),
      (item) => this.#decode(item, "lazily"),
    );
  }

  #send(method: HttpMethod, rest: string, body?: string, timeoutMs?: number): Promise<string> {
    return this.#api.send(method, this.#codec.plural, rest, body, timeoutMs);
  }

  /** The server compares both the uid and the revision, in the transaction that removes the object. */
  async #remove(name: string, revision: string): Promise<void> {
    const options = { apiVersion: "v1", kind: "DeleteOptions", preconditions: preconditionsOf(revision) };
    await this.#send("DELETE", `/${name}`, JSON.stringify(options));
  }

  /** Finds the name to write to. */
  async #mustName(key: K): Promise<string> {
    const name = this.#codec.nameOf(key);
    if (name !== undefined) return name;
    const kind = this.#codec.kind(await this.#api.group());
    const what = typeof key === "string" ? key : JSON.stringify(key);
    throw new DatastoreError(
      "invalid",
      `${kind}(${what}) cannot be stored: names in Kubernetes are lower case letters, digits, "-" and ".", at most 253 of them`,
    );
  }

  async #newBody(name: string, value: T, foreign?: ForeignFields): Promise<Body> {
    const group = await this.#api.group();
    const own = this.#codec.labels?.(value);
    const labels = own || foreign ? { ...foreign?.labels, ...own } : undefined;
    return {
      apiVersion: group,
      kind: this.#codec.kind(group),
      metadata: { name, labels, annotations: foreign?.annotations },
      spec: { ...this.#codec.initial, ...foreign?.spec, ...this.#codec.encode(value, group) },
    };
  }

  /** Writes the whole object as it is to be: an update of what is there. */
  async #bodyOf(name: string, value: T, revision: string): Promise<Body> {
    const group = await this.#api.group();
    const spec = this.#codec.encode(value, group);
    const kept = this.#kind.keptAt(name, revision) ?? (await this.#readKept(name, revision));
    const own = this.#codec.labels?.(value);
    const labels = own && { ...section(kept.metadata, "labels"), ...own };
    return {
      ...kept.others,
      apiVersion: group,
      kind: this.#codec.kind(group),
      metadata: { ...kept.metadata, ...(labels && { labels }), name, ...preconditionsOf(revision) },
      spec: { ...kept.spec, ...spec },
    };
  }

  /** Reads again an object that another client has read, or that was forgotten since. @throws DatastoreError `conflict`, `not-found` */
  async #readKept(name: string, revision: string): Promise<Kept> {
    const stored = await this.#read(name);
    if (stored === undefined) throw new DatastoreError("not-found", `resource does not exist: ${this.#kind.describe(name)}`);
    const { revision: now } = this.#decode(stored);
    const kept = this.#kind.keptAt(name, revision);
    if (kept !== undefined) return kept;
    throw new DatastoreError("conflict", `update conflict: ${this.#kind.describe(name)} is at revision ${now}, not ${revision}`);
  }

  /** @returns `undefined` on 404 @throws DatastoreError */
  async #read(name: string, timeoutMs?: number): Promise<Fields | undefined> {
    let text: string;
    try {
      text = await this.#send("GET", `/${name}`, undefined, timeoutMs);
    } catch (error) {
      if (hasStatus(error, NOT_FOUND)) return undefined;
      throw this.#failure(name, error);
    }
    return this.#parse(name, text);
  }

  /** Finds out what became of a write: the object as it is now. @throws DatastoreError of the write itself when that cannot be found out */
  async #lookAgain(name: string, error: unknown): Promise<Fields | undefined> {
    try {
      return await this.#read(name, SECOND_LOOK_MS);
    } catch {
      throw this.#failure(name, error);
    }
  }

  /** Tells whether an object says what was sent: both go through the decoder, since the server fills in and leaves out. */
  #isWritten(there: Fields, body: Body): boolean {
    if (isMarked(there)) return false;
    const sent = this.#parse(body.metadata.name, JSON.stringify({ ...body, metadata: there.metadata }));
    // Spread, because what an object decodes late must be compared by its values.
    return Bun.deepEquals({ ...this.#decode(sent).value }, { ...this.#decode(there).value }, true);
  }

  async #finishDeletion(name: string, marked: Fields): Promise<void> {
    try {
      await this.#remove(name, revisionOf(metadataOf(marked)));
    } catch (error) {
      // Another client was faster, or has the right that we lack: it counts as absent in any case.
      const failure = this.#failure(name, error);
      if (!isDatastoreFailure(failure, "not-found", "conflict", "unauthorized")) throw failure;
    }
  }

  #parse(name: string, text: string): Fields {
    return decoded(this.#kind.describe(name), () => parseObject(this.#codec.prepare?.(text) ?? text));
  }

  #decode(object: Fields, when?: "lazily"): Versioned<T> {
    const read = () => {
      const resource = resourceOf(object);
      return { revision: revisionOf(resource.metadata), value: this.#codec.decode(resource), object };
    };
    return this.#kind.decode(String(section(object, "metadata").name), read, when);
  }

  /** The answer to a write, which repeats what was sent: most callers need not look into it. Decoding reports what cannot be read. */
  #decodedLate(text: string): Versioned<T> {
    const decoded = once(() => this.#decode(this.#parse("", text), "lazily"));
    return {
      get value() {
        return decoded().value;
      },
      get revision() {
        return decoded().revision;
      },
    };
  }

  /** Another uid under the same name is a conflict here: the object that the caller knew is not the one that is there. */
  #failure(name: string, error: unknown): unknown {
    const failure = failureOf(error, this.#kind.describe(name));
    const isOther = hasStatus(error, CONFLICT) && isDatastoreFailure(failure, "not-found");
    return isOther ? new DatastoreError("conflict", `update conflict: ${this.#kind.describe(name)}: ${error.explanation}`, error) : failure;
  }
}

interface Body {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Fields & { readonly name: string };
  readonly spec: Spec;
}
