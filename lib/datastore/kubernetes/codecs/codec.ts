/** What one kind of custom resource is: its names on the wire, and its spec to a value of the model and back. */

import { messageOf } from "../../../errors/errors.ts";
import type { Fields } from "../../../json/decode.ts";
import { DatastoreError } from "../../errors.ts";
import type { Metadata } from "../core/metadata.ts";
import type { ApiGroup } from "../group.ts";
import type { NameOf } from "../names.ts";

/** An object as it was read. */
export interface Resource {
  readonly metadata: Metadata;
  readonly spec: Fields;
  readonly status: Fields;
}

/** A spec to be written; members that are `undefined` are left out. */
export type Spec = Readonly<Record<string, unknown>>;

export interface Codec<K, T> {
  /** What messages call it: the kind, of the legacy group where they differ. */
  readonly title: string;
  /** `kind` of the objects, and the name of the collection in paths. */
  readonly kind: (group: ApiGroup) => string;
  readonly plural: (group: ApiGroup) => string;
  readonly nameOf: NameOf<K>;
  /** Text of an object or a list, before JSON.parse sees it. */
  readonly prepare?: (json: string) => string;
  /** @throws Error saying what is wrong with the object */
  readonly decode: (resource: Resource) => T;
  /** Looks at what `decode` leaves for later. @throws DatastoreError `invalid` */
  readonly verify?: (value: T) => void;
  /** What is strange about a value that is used all the same: a word of a newer Calico. */
  readonly oddityOf?: (value: T) => string | undefined;
  /** Members of the spec that the model knows; all others are kept as they are. */
  readonly members: ReadonlySet<string>;
  readonly encode: (value: T, group: ApiGroup) => Spec;
  /** Written with the object, beside those that it has. */
  readonly labels?: (value: T) => Readonly<Record<string, string>>;
  /** Further members of the spec of a new object. */
  readonly initial?: Spec;
}

/** The same words in both groups. */
export function named(kind: string, plural: string): Pick<Codec<unknown, unknown>, "title" | "kind" | "plural"> {
  return { title: kind, kind: () => kind, plural: () => plural };
}

/** The error of an object that says what it should not. */
export function damaged(what: string, cause: unknown): DatastoreError {
  return cause instanceof DatastoreError ? cause : new DatastoreError("invalid", `${what} cannot be read: ${messageOf(cause)}`, cause);
}
