/**
 * What a stored resource has beyond the model and may be taken along to another store: fields of the spec that Tortie does not use
 * (encapsulation, BGP), labels and annotations. uid, time of creation, owners and finalizers belong to the one store.
 */
import { type Fields, isText, section } from "../json/decode.ts";
import type { Kept } from "./kubernetes/codecs/kept-fields.ts";

export interface ForeignFields {
  readonly spec: Fields;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Collections of stores that keep whole resources, in Calico's format. The local store has the model and nothing else. */
export interface KeepsForeignFields<K, T> {
  /** Of an object at the revision at which it was last read; `undefined` when that is not remembered. */
  foreignFields(key: K, revision: string): ForeignFields | undefined;
  /** As `Collection.create`, with further fields. */
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
