/**
 * Decodes the stored objects of one kind, and remembers what each has beyond the model, so that an update, which replaces the whole
 * object, writes it back: labels, annotations and finalizers of others, fields of newer or foreign schemas, a status without a
 * sub-resource. (Calico drops them, I§2.1.) Watches decode the same way.
 */
import { type Fields, has, isText, section } from "../../json/decode.ts";
import { metadataOf, revisionOf } from "../../kubernetes/objects.ts";
import type { Selection } from "../../kubernetes/watch/kubernetes-feed.ts";
import { RecentMap } from "../../system/recent-map.ts";
import type { Versioned } from "../datastore.ts";
import { DatastoreError, isDatastoreFailure } from "../errors.ts";
import { type ApiGroup, type Codec, decoded, isMarked, resourceOf } from "./codec.ts";

/** An object's fields beyond the model. */
export interface Kept {
  readonly metadata: Fields;
  readonly spec: Fields;
  /** Members of the object itself. */
  readonly others: Fields;
}

/** The rest of the metadata is the server's. */
const METADATA: ReadonlySet<string> = new Set(["annotations", "finalizers", "labels", "ownerReferences"]);
const OWN_MEMBERS: ReadonlySet<string> = new Set(["apiVersion", "kind", "metadata", "spec"]);

/** Objects whose fields are remembered, for each kind: more than one operation reads. Of a forgotten one they are read again. */
const MOST_REMEMBERED = 4096;

/** Gets the error of an object that cannot be read: a list leaves it out, or a part of it is taken for something else. */
export type OnDamaged = (error: DatastoreError) => void;

/** An object as it was read. */
interface Read<T> extends Versioned<T> {
  readonly object: Fields;
}

/** Holds the stored objects of one kind: how they are decoded, and what each has beyond the model, as of the last state that was read. */
export class StoredKind<T> {
  readonly #codec: Pick<Codec<never, T>, "title" | "members" | "verify" | "oddityOf">;
  readonly #onDamaged: OnDamaged;
  readonly #metadata: ReadonlySet<string>;
  /** By name; the one that was read longest ago is forgotten first. */
  readonly #kept = new RecentMap<string, { readonly revision: string; readonly kept: Kept }>(MOST_REMEMBERED);

  /** @param metadata members of the metadata that are kept */
  constructor(codec: Pick<Codec<never, T>, "title" | "members" | "verify" | "oddityOf">, onDamaged: OnDamaged, metadata = METADATA) {
    this.#codec = codec;
    this.#onDamaged = onDamaged;
    this.#metadata = metadata;
  }

  /** Names an object in messages: "IPPool(default-pool)". */
  describe(name: string): string {
    return `${this.#codec.title}(${name})`;
  }

  /**
   * @param read decodes the object
   * @param when `lazily`: what the codec leaves for later is not looked at
   * @throws DatastoreError `invalid`
   */
  decode(name: string, read: () => Read<T>, when: "at once" | "lazily" = "at once"): Versioned<T> {
    return decoded(this.describe(name), () => {
      const { value, revision, object } = read();
      if (when === "at once") this.#codec.verify?.(value);
      const oddity = this.#codec.oddityOf?.(value);
      if (oddity !== undefined) this.#onDamaged(new DatastoreError("invalid", `${this.describe(name)}: ${oddity}`));
      this.note(name, revision, object);
      return { value, revision };
    });
  }

  /** Leaves out what cannot be decoded. */
  decodeAll<S>(stored: readonly S[], decode: (one: S) => Versioned<T>): readonly Versioned<T>[] {
    return stored.flatMap((one) => {
      try {
        return [decode(one)];
      } catch (error) {
        if (!isDatastoreFailure(error, "invalid")) throw error;
        this.#onDamaged(error);
        return [];
      }
    });
  }

  note(name: string, revision: string, object: Fields): void {
    const kept = {
      metadata: pick(section(object, "metadata"), (member) => this.#metadata.has(member)),
      spec: pick(section(object, "spec"), (member) => !this.#codec.members.has(member)),
      others: pick(object, (member) => !OWN_MEMBERS.has(member)),
    };
    this.#kept.set(name, { revision, kept });
  }

  /** Finds what the object had at that revision; `undefined` when that is not remembered. */
  keptAt(name: string, revision: string): Kept | undefined {
    const noted = this.#kept.get(name);
    return noted?.revision === revision ? noted.kept : undefined;
  }
}

function pick(fields: Fields, isWanted: (member: string) => boolean): Fields {
  const picked: Record<string, unknown> = {};
  for (const member of Object.keys(fields)) {
    if (isWanted(member) && has(fields, member)) picked[member] = fields[member];
  }
  return picked;
}

/**
 * What may be taken along to another store: fields of the spec that Tortie does not use (encapsulation, BGP), labels and annotations. uid,
 * time of creation, owners and finalizers belong to the one store.
 */
export interface ForeignFields {
  readonly spec: Fields;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Collections of stores that keep whole resources, in Calico's format. The local store has the model and nothing else. */
export interface KeepsForeignFields<K, T> {
  /** Finds the fields of an object at the revision at which it was last read; `undefined` when that is not remembered. */
  foreignFields(key: K, revision: string): ForeignFields | undefined;
  /** Does as `Collection.create`, with further fields. */
  createWith(key: K, value: T, foreign: ForeignFields): Promise<unknown>;
}

export function keepsForeignFields<K, T>(collection: object): collection is KeepsForeignFields<K, T> {
  return "foreignFields" in collection && "createWith" in collection;
}

/** Annotations in which a client of one store keeps what it needs for that store alone. */
const OF_ONE_STORE: ReadonlySet<string> = new Set(["kubectl.kubernetes.io/last-applied-configuration", "projectcalico.org/metadata"]);

export function foreignFieldsOf({ metadata, spec }: Kept): ForeignFields {
  const annotations = Object.entries(textsOf(metadata, "annotations")).filter(([name]) => !OF_ONE_STORE.has(name));
  return { spec, labels: textsOf(metadata, "labels"), annotations: Object.fromEntries(annotations) };
}

function textsOf(metadata: Fields, member: string): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(section(metadata, member))) if (isText(value)) texts[name] = value;
  return texts;
}

/** One object as a watch has it. */
export interface Watched<T> {
  readonly name: string;
  readonly stored: Versioned<T>;
  /** Its deletion has been begun by another client (I§2.10): it counts as absent. */
  readonly isMarked: boolean;
}

/** Selects all objects of one kind of Calico's. */
export function resourceSelection<K, T>(codec: Codec<K, T>, group: ApiGroup): Selection<Watched<T>> {
  return {
    name: codec.plural(group),
    path: `/apis/${group}/${codec.plural(group)}`,
    prepare: codec.prepare,
    decode: (object) =>
      watched(object, (fields) => {
        const value = codec.decode(resourceOf(fields));
        codec.verify?.(value);
        return value;
      }),
  };
}

/** Selects all objects of one of Kubernetes' own kinds. */
export function coreSelection<T>(plural: string, decode: (object: Fields) => T): Selection<Watched<T>> {
  return { name: plural, path: `/api/v1/${plural}`, decode: (object) => watched(object, decode) };
}

function watched<T>(object: Fields, decode: (object: Fields) => T): Watched<T> {
  const metadata = metadataOf(object);
  const stored: Versioned<T> = { value: decode(object), revision: revisionOf(metadata) };
  return { name: metadata.name, stored, isMarked: isMarked(object) };
}
