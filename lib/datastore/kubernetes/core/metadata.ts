/** The part that every Kubernetes object has. Absent, null and empty mean the same to the API, and so they do here. */
import { field, isBoolean, isObject, isText, listOf, mapOf, parseObject } from "../../../json/fields.ts";
import type { OwnerReference } from "../../../kubernetes/objects.ts";

export type Fields = Readonly<Record<string, unknown>>;

export interface Metadata {
  readonly name: string;
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owners: readonly OwnerReference[];
  readonly generateName: string;
  readonly creationTimestamp: string;
  readonly isDeleting: boolean;
}

const NOTHING: Fields = {};
const isTexts = mapOf(isText);
const isObjects = listOf(isObject);

/** Text of one object. @throws Error when it is not one */
export function parseKubernetesObject(text: string): Fields {
  return parseObject(text);
}

/** @throws Error naming the field that is of the wrong type */
export function metadataOf(object: Fields): Metadata {
  const metadata = section(object, "metadata");
  return {
    name: text(metadata, "name"),
    namespace: text(metadata, "namespace"),
    uid: text(metadata, "uid"),
    resourceVersion: text(metadata, "resourceVersion"),
    labels: texts(metadata, "labels"),
    annotations: texts(metadata, "annotations"),
    owners: objects(metadata, "ownerReferences").map((owner) => ({
      apiVersion: text(owner, "apiVersion"),
      kind: text(owner, "kind"),
      name: text(owner, "name"),
      uid: text(owner, "uid"),
      isController: flag(owner, "controller"),
    })),
    generateName: text(metadata, "generateName"),
    creationTimestamp: text(metadata, "creationTimestamp"),
    isDeleting: text(metadata, "deletionTimestamp") !== "",
  };
}

/** An object's member that is an object itself. @throws Error when it is something else */
export function section(object: Fields, name: string): Fields {
  return has(object, name) ? field(object, name, isObject) : NOTHING;
}

export function text(object: Fields, name: string): string {
  return has(object, name) ? field(object, name, isText) : "";
}

export function flag(object: Fields, name: string): boolean {
  return has(object, name) ? field(object, name, isBoolean) : false;
}

export function texts(object: Fields, name: string): Readonly<Record<string, string>> {
  return has(object, name) ? field(object, name, isTexts) : {};
}

export function objects(object: Fields, name: string): readonly Fields[] {
  return has(object, name) ? field(object, name, isObjects) : [];
}

/** Whether the member is there and not null. */
export function has(object: Fields, name: string): boolean {
  return object[name] !== undefined && object[name] !== null;
}

/** What names a state of an object: "<uid>/<resourceVersion>". @throws Error when the object has none */
export function revisionOf({ uid, resourceVersion }: Pick<Metadata, "uid" | "resourceVersion">): string {
  if (uid === "" || resourceVersion === "") throw new Error("metadata.uid or metadata.resourceVersion is missing");
  return `${uid}/${resourceVersion}`;
}

/** The two preconditions that a revision stands for. */
export function preconditionsOf(revision: string): { readonly uid: string; readonly resourceVersion: string } {
  const slash = revision.indexOf("/");
  return { uid: revision.slice(0, slash), resourceVersion: revision.slice(slash + 1) };
}
