/**
 * Serves one kind of object in etcd as a collection of the port. The revision is etcd's mod_revision, which belongs to one state of one key
 * for ever: every write compares it in its own transaction. A write whose answer was lost may have been carried out: it is repeated,
 * and where the comparison fails then, the key is looked at: what was sent is what was written.
 */
import { type Fields, parseObject, section } from "../../json/decode.ts";
import {
  type ForeignFields,
  foreignFieldsOf,
  type KeepsForeignFields,
  type Kept,
  type OnDamaged,
  StoredKind,
} from "../calico/stored-kind.ts";
import type { Collection, Versioned } from "../datastore.ts";
import { DatastoreError } from "../errors.ts";
import { asDatastoreError, type KeyValue } from "./answers.ts";
import { type EtcdCodec, parseStored } from "./codecs.ts";
import type { KeyValueStore, Outcome } from "./key-value-store.ts";

/** In etcd all of an object's metadata is its writers', uid and time of creation included; only the revision is etcd's. */
const METADATA: ReadonlySet<string> = new Set([
  "annotations",
  "creationTimestamp",
  "deletionGracePeriodSeconds",
  "deletionTimestamp",
  "finalizers",
  "generateName",
  "labels",
  "managedFields",
  "ownerReferences",
  "uid",
]);

/** What every collection of one datastore shares. */
export interface EtcdAccess {
  readonly store: KeyValueStore;
  readonly onDamaged: OnDamaged;
  /** Our user, for messages; empty without authentication. */
  readonly user: string;
}

export class EtcdCollection<K, T> implements Collection<K, T>, KeepsForeignFields<K, T> {
  readonly #access: EtcdAccess;
  readonly #codec: EtcdCodec<K, T>;
  readonly #kind: StoredKind<T>;

  constructor(access: EtcdAccess, codec: EtcdCodec<K, T>) {
    this.#access = access;
    this.#codec = codec;
    this.#kind = new StoredKind(codec, access.onDamaged, METADATA);
  }

  async get(key: K): Promise<Versioned<T> | undefined> {
    const path = this.#codec.keyOf(key);
    const pair = await this.#named(path, () => this.#access.store.get(path));
    return pair && this.#decode(pair);
  }

  list(): Promise<readonly Versioned<T>[]> {
    return this.listBelow(this.#codec.prefix);
  }

  create(key: K, value: T): Promise<Versioned<T>> {
    return this.#create(key, value, this.#codec.encode(value, undefined));
  }

  /** Only for resources, which have a spec and metadata. */
  createWith(key: K, value: T, foreign: ForeignFields): Promise<Versioned<T>> {
    const object = this.#codec.encode(value, undefined);
    const metadata = section(object, "metadata");
    const named = {
      labels: unlessEmpty({ ...foreign.labels, ...section(metadata, "labels") }),
      annotations: unlessEmpty({ ...foreign.annotations, ...section(metadata, "annotations") }),
    };
    return this.#create(key, value, {
      ...object,
      metadata: { ...metadata, ...named },
      spec: { ...section(object, "spec"), ...foreign.spec },
    });
  }

  foreignFields(key: K, revision: string): ForeignFields | undefined {
    const kept = this.#kind.keptAt(this.#codec.keyOf(key), revision);
    return kept && foreignFieldsOf(kept);
  }

  async #create(key: K, value: T, object: Fields): Promise<Versioned<T>> {
    const path = this.#codec.keyOf(key);
    const text = JSON.stringify(object);
    const outcome = await this.#named(path, () => this.#access.store.create(path, text));
    return this.#written(
      path,
      text,
      value,
      outcome,
      () => new DatastoreError("already-exists", `resource already exists: ${this.#kind.describe(path)}`),
    );
  }

  async update(key: K, value: T, revision: string): Promise<Versioned<T>> {
    const path = this.#codec.keyOf(key);
    const kept = this.#kind.keptAt(path, revision) ?? (await this.#readKept(path, revision));
    const text = JSON.stringify(this.#codec.encode(value, kept));
    const outcome = await this.#named(path, () => this.#access.store.update(path, text, revision));
    return this.#written(path, text, value, outcome, (there) => this.#notAt(path, revision, there));
  }

  async delete(key: K, revision: string): Promise<void> {
    const path = this.#codec.keyOf(key);
    const outcome = await this.#named(path, () => this.#access.store.delete(path, revision));
    if (outcome.isDone || (outcome.isRepetition && outcome.there === undefined)) return;
    throw this.#notAt(path, revision, outcome.there);
  }

  /** Lists every object below a prefix of keys, in key order; what cannot be decoded is left out. */
  protected async listBelow(prefix: string, isWanted: (key: string) => boolean = () => true): Promise<readonly Versioned<T>[]> {
    const pairs = await this.#named(prefix, () => this.#access.store.list(prefix));
    return this.#kind.decodeAll(
      pairs.filter(({ key }) => isWanted(key)),
      (pair) => this.#decode(pair, "lazily"),
    );
  }

  #decode(pair: KeyValue, when?: "lazily"): Versioned<T> {
    const read = () => {
      const { stored, value } = parseStored(this.#codec, pair);
      return { value, revision: pair.modRevision, object: this.#codec.partsOf(stored) };
    };
    return this.#kind.decode(pair.key, read, when);
  }

  /** Reads again an object that another client has read, or that was forgotten since. @throws DatastoreError `conflict`, `not-found` */
  async #readKept(path: string, revision: string): Promise<Kept> {
    const pair = await this.#named(path, () => this.#access.store.get(path));
    if (pair?.modRevision !== revision) throw this.#notAt(path, revision, pair);
    this.#decode(pair);
    const kept = this.#kind.keptAt(path, revision);
    if (kept === undefined) throw this.#notAt(path, revision, pair);
    return kept;
  }

  #written(path: string, text: string, value: T, outcome: Outcome, failure: (there: KeyValue | undefined) => DatastoreError): Versioned<T> {
    if (outcome.isDone) {
      this.#kind.note(path, outcome.revision, this.#codec.partsOf(parseObject(text)));
      return { value, revision: outcome.revision };
    }
    if (outcome.isRepetition && outcome.there?.value === text) return this.#decode(outcome.there);
    throw failure(outcome.there);
  }

  #notAt(path: string, revision: string, there: KeyValue | undefined): DatastoreError {
    if (there === undefined) return new DatastoreError("not-found", `resource does not exist: ${this.#kind.describe(path)}`);
    return new DatastoreError(
      "conflict",
      `update conflict: ${this.#kind.describe(path)} is at revision ${there.modRevision}, not ${revision}`,
    );
  }

  /** @throws DatastoreError naming the key */
  async #named<R>(path: string, ask: () => Promise<R>): Promise<R> {
    try {
      return await ask();
    } catch (error) {
      throw asDatastoreError(error, this.#kind.describe(path), this.#access.user);
    }
  }
}

function unlessEmpty(fields: Fields): Fields | undefined {
  return Object.keys(fields).length === 0 ? undefined : fields;
}
