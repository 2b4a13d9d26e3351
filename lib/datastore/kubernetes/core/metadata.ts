/** The part that every Kubernetes object has. Absent, null and empty mean the same to the API, and so they do here. */
import { type Fields, flag, objects, parseObject, section, text, texts } from "../../../json/decode.ts";
import type { OwnerReference } from "../../../kubernetes/objects.ts";

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
