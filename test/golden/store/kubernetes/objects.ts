/** Objects of a recording as the API server takes them: kinds, paths, and what the recorder left out because every object has it. */
import { type ApiObject, LEGACY, pathOf } from "../../../support/kubernetes/resources.ts";
import { type JsonRecord, mapTexts, recordOf, textsOf } from "../../compare/json.ts";
import type { StoredObject } from "../../recording/stored-object.ts";

/** The namespace of the pods that the recordings of main name without one. */
export const RECORDED_NAMESPACE = "rec";

/** Stands for the uids of objects that no recording shows: `{{uid}}`. */
export const UNSEEN_UID = "5eed0000-0000-4000-8000-000000000000";

/** What a scenario needs of a kind. */
interface Kind {
  readonly apiVersion: string;
  readonly plural: string;
  readonly isNamespaced?: boolean;
  /** The plugins never write such objects: equal ones may stay from one scenario to the next. */
  readonly isReadOnly?: boolean;
}

const KINDS: Readonly<Record<string, Kind>> = {
  Node: { apiVersion: "v1", plural: "nodes", isReadOnly: true },
  Namespace: { apiVersion: "v1", plural: "namespaces", isReadOnly: true },
  Pod: { apiVersion: "v1", plural: "pods", isNamespaced: true },
  VirtualMachine: { apiVersion: "kubevirt.io/v1", plural: "virtualmachines", isNamespaced: true },
  VirtualMachineInstance: { apiVersion: "kubevirt.io/v1", plural: "virtualmachineinstances", isNamespaced: true },
  ClusterInformation: { apiVersion: LEGACY, plural: "clusterinformations", isReadOnly: true },
  IPPool: { apiVersion: LEGACY, plural: "ippools", isReadOnly: true },
  IPAMConfig: { apiVersion: LEGACY, plural: "ipamconfigs", isReadOnly: true },
  IPReservation: { apiVersion: LEGACY, plural: "ipreservations", isReadOnly: true },
  IPAMBlock: { apiVersion: LEGACY, plural: "ipamblocks" },
  BlockAffinity: { apiVersion: LEGACY, plural: "blockaffinities" },
  IPAMHandle: { apiVersion: LEGACY, plural: "ipamhandles" },
};

export interface Manifest {
  readonly kind: string;
  /** Of the object, without its status. */
  readonly path: string;
  /** Where it is created. */
  readonly collection: string;
  readonly object: ApiObject;
  readonly isReadOnly: boolean;
  readonly isDeleting: boolean;
}

/** @param uids what stands for the tokens `{{uid:…}}` of objects that others refer to */
export function manifestOf(stored: StoredObject, uids: ReadonlyMap<string, string>): Manifest {
  const { kind, labels, annotations, deleting, owners = [], finalizers = [], generateName = "" } = stored;
  const { apiVersion, plural, isReadOnly = false } = kindOf(kind);
  const { name, namespace } = nameOf(kind, stored.name);
  const fill = (text: string) =>
    [...uids].reduce((result, [token, uid]) => result.replaceAll(token, uid), text).replaceAll("{{uid}}", UNSEEN_UID);
  const ownerReferences = owners.map(({ isController, uid, ...owner }) => ({ ...owner, uid: fill(uid), controller: isController }));
  return {
    kind,
    path: pathOf(apiVersion, plural, name, namespace),
    collection: pathOf(apiVersion, plural, undefined, namespace),
    isReadOnly: isReadOnly && !deleting,
    isDeleting: deleting,
    object: {
      apiVersion,
      kind,
      metadata: {
        name,
        labels: textsOf(mapTexts(labels, fill)),
        annotations,
        ...(namespace === undefined ? {} : { namespace }),
        ...(ownerReferences.length === 0 ? {} : { ownerReferences }),
        ...(finalizers.length === 0 ? {} : { finalizers }),
        ...(generateName === "" ? {} : { generateName }),
      },
      spec: specOf(kind, recordOf(mapTexts(stored.spec, fill))),
      ...(Object.keys(stored.status).length === 0 ? {} : { status: stored.status }),
    },
  };
}

/** Path of a recording's object: "pod1", "shop/vm1", "default". */
export function pathOfNamed(kind: string, fullName: string): string {
  const { apiVersion, plural } = kindOf(kind);
  const { name, namespace } = nameOf(kind, fullName);
  return pathOf(apiVersion, plural, name, namespace);
}

function nameOf(kind: string, fullName: string): { readonly name: string; readonly namespace?: string } {
  if (kindOf(kind).isNamespaced !== true) return { name: fullName };
  const slash = fullName.indexOf("/");
  return slash < 0
    ? { name: fullName, namespace: RECORDED_NAMESPACE }
    : { name: fullName.slice(slash + 1), namespace: fullName.slice(0, slash) };
}

/** A pod must have a container; which one says nothing. */
function specOf(kind: string, spec: JsonRecord): JsonRecord {
  return kind === "Pod" ? { containers: [{ name: "c", image: "i" }], ...spec } : spec;
}

function kindOf(kind: string): Kind {
  const known = KINDS[kind];
  if (known === undefined) throw new Error(`no recording had ${kind} before: add it to kubernetes-objects.ts`);
  return known;
}
