/** What one kind of object is in etcd: where its keys lie, and its JSON to a value of the model and back. */

import { type Fields, parseObject, section } from "../../json/decode.ts";
import type { Spec } from "../kubernetes/codecs/codec.ts";
import type { Kept } from "../kubernetes/codecs/kept-fields.ts";
import { type Metadata, metadataOf } from "../kubernetes/core/metadata.ts";
import type { KeyValue } from "./client/answers.ts";

export interface EtcdCodec<K, T> {
  /** What messages call it: "IPPool". */
  readonly title: string;
  readonly keyOf: (key: K) => string;
  /** Text of a value, before JSON.parse sees it. */
  readonly prepare?: (json: string) => string;
  /** @throws Error saying what is wrong with the object */
  readonly decode: (stored: Fields, key: string) => T;
  /** Looks at what `decode` leaves for later. @throws DatastoreError `invalid` */
  readonly verify?: (value: T) => void;
  readonly oddityOf?: (value: T) => string | undefined;
  /** Where fields that the model does not know may stand, so that an update writes them back. */
  readonly known: ReadonlySet<string>;
  readonly partsOf: (stored: Fields) => Fields;
  /** @param kept what the stored object has beyond the model; absent for a new one */
  readonly encode: (value: T, kept: Kept | undefined) => Fields;
}

/** @throws Error saying what is wrong with the value of this key */
export function parseStored<K, T>(codec: EtcdCodec<K, T>, { key, value: text }: KeyValue): { readonly stored: Fields; readonly value: T } {
  const stored = parseObject(codec.prepare?.(text) ?? text);
  return { stored, value: codec.decode(stored, key) };
}

/** What is different from kind to kind where an object is flat: all its members stand side by side (I§2.9). */
type Flat<K, T> = Omit<EtcdCodec<K, T>, "partsOf" | "encode"> & { readonly encode: (value: T) => Spec };

export function flatCodec<K, T>(codec: Flat<K, T>): EtcdCodec<K, T> {
  return {
    ...codec,
    partsOf: (stored) => ({ spec: stored }),
    encode: (value, kept) => ({ ...kept?.spec, ...codec.encode(value) }),
  };
}

/** A stored resource, with the status that only other programs write. */
interface StoredResource {
  readonly metadata: Metadata;
  readonly spec: Fields;
  readonly status: Fields;
}

/** As `Codec` of the Kubernetes driver, in parts that both have. */
interface ResourceParts<K, T> {
  readonly kind: string;
  /** Key below the root of the kind, and the metadata that a new object begins with. */
  readonly pathOf: (key: K) => string;
  readonly plural: string;
  readonly decode: (resource: StoredResource) => T;
  readonly oddityOf?: (value: T) => string | undefined;
  readonly members: ReadonlySet<string>;
  readonly initial?: Spec;
  readonly metadataOf: (value: T) => Spec;
  readonly encode: (value: T) => Spec;
}

const ROOT = "/calico/resources/v3/projectcalico.org";

export function resourcePrefix(plural: string): string {
  return `${ROOT}/${plural}/`;
}

/** Calico's v3 resources: the whole object is the value, without a resourceVersion, which is etcd's revision (C§7.4). */
export function resourceCodec<K, T>(parts: ResourceParts<K, T>): EtcdCodec<K, T> {
  const { kind, plural, oddityOf } = parts;
  return {
    title: kind,
    keyOf: (key) => resourcePrefix(plural) + parts.pathOf(key),
    known: parts.members,
    partsOf: (stored) => stored,
    decode: (stored) => parts.decode({ metadata: metadataOf(stored), spec: section(stored, "spec"), status: section(stored, "status") }),
    ...(oddityOf && { oddityOf }),
    encode: (value, kept) => {
      const born = { uid: crypto.randomUUID(), creationTimestamp: `${new Date().toISOString().slice(0, 19)}Z` };
      return {
        ...kept?.others,
        kind,
        apiVersion: "projectcalico.org/v3",
        metadata: { ...(kept?.metadata ?? born), ...parts.metadataOf(value) },
        spec: { ...(kept === undefined ? parts.initial : kept.spec), ...parts.encode(value) },
      };
    },
  };
}
