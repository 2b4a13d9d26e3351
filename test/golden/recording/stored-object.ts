/** An object of `before`, or of a change, in one form: what a store must hold before the calls. */
import type { OwnerReference } from "../../../lib/kubernetes/objects.ts";
import { type Json, type JsonRecord, listOf, recordOf, textOf, textsOf } from "../compare/json.ts";

/** `spec` is that of Calico's resources (I§2.3-2.8); blocks, affinities and handles of etcd are put into the same shape. */
export interface StoredObject {
  readonly kind: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** deletionTimestamp is set. */
  readonly deleting: boolean;
  readonly spec: JsonRecord;
  readonly status: JsonRecord;
  /** The recording's token for it, `{{uid:plural/name}}`; empty where no recording speaks of it. */
  readonly uid?: string;
  readonly owners?: readonly OwnerReference[];
  readonly finalizers?: readonly string[];
  /** Of a pod; empty when it was not generated. */
  readonly generateName?: string;
}

/** Plural of the API → kind. */
const KINDS: Readonly<Record<string, string>> = {
  ippools: "IPPool",
  ipamblocks: "IPAMBlock",
  blockaffinities: "BlockAffinity",
  ipamhandles: "IPAMHandle",
  ipamconfigs: "IPAMConfig",
  ipreservations: "IPReservation",
  clusterinformations: "ClusterInformation",
  nodes: "Node",
  namespaces: "Namespace",
  pods: "Pod",
  virtualmachines: "VirtualMachine",
  virtualmachineinstances: "VirtualMachineInstance",
};

/** Whole API objects (main). */
export function objectsFromApi(objects: readonly Json[]): StoredObject[] {
  return objects.map(recordOf).map((object) => {
    const metadata = recordOf(object.metadata);
    return storedObject(textOf(object.kind), textOf(metadata.name), { ...metadata, spec: object.spec ?? {}, status: object.status ?? {} });
  });
}

/** "plural/name" → labels, annotations, spec (ipam-kdd). */
export function objectsFromPlurals(objects: JsonRecord): StoredObject[] {
  return Object.entries(objects).map(([key, object]) => {
    const [plural = "", ...name] = key.split("/");
    const uid = `{{uid:${plural}/${name[name.length - 1] ?? ""}}}`;
    return { ...storedObject(KINDS[plural] ?? plural, name.join("/"), recordOf(object)), uid };
  });
}

/** Keys and values of etcd (I§2.9). */
export function objectsFromEtcd(values: JsonRecord): StoredObject[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const resource = /^\/calico\/resources\/v3\/projectcalico\.org\/([a-z]+)\/(.+)$/.exec(key);
    if (resource !== null) return objectsFromApi([{ ...recordOf(value), kind: KINDS[resource[1] ?? ""] ?? "" }]);
    return ipamObjectFromEtcd(key, recordOf(value));
  });
}

function ipamObjectFromEtcd(key: string, value: JsonRecord): StoredObject[] {
  const cidr = (name: string) => name.replace(/-(\d+)$/, "/$1");
  const block = /^\/calico\/ipam\/v2\/assignment\/ipv[46]\/block\/(.+)$/.exec(key);
  if (block?.[1] !== undefined) return [storedObject("IPAMBlock", cidr(block[1]), { spec: value })];
  const handle = /^\/calico\/ipam\/v2\/handle\/(.+)$/s.exec(key);
  if (handle?.[1] !== undefined) return [storedObject("IPAMHandle", handle[1], { spec: { ...value, handleID: handle[1] } })];
  const affinity = /^\/calico\/ipam\/v2\/host\/([^/]+)\/ipv[46]\/block\/(.+)$/.exec(key);
  if (affinity?.[1] !== undefined && affinity[2] !== undefined) {
    return [storedObject("BlockAffinity", key, { spec: { ...value, node: affinity[1], cidr: cidr(affinity[2]), type: "host" } })];
  }
  if (key !== "/calico/ipam/v2/config") return [];
  return [
    storedObject("IPAMConfig", "default", {
      spec: { ...value, strictAffinity: value.strict_affinity ?? false, autoAllocateBlocks: value.auto_allocate_blocks ?? false },
    }),
  ];
}

function storedObject(kind: string, name: string, object: JsonRecord): StoredObject {
  return {
    kind,
    name,
    labels: textsOf(object.labels),
    annotations: textsOf(object.annotations),
    deleting: object.deletionTimestamp !== undefined && object.deletionTimestamp !== null,
    spec: recordOf(object.spec),
    status: recordOf(object.status),
    owners: listOf(object.ownerReferences).map(recordOf).map(ownerOf),
    finalizers: listOf(object.finalizers).map(textOf),
    generateName: textOf(object.generateName),
  };
}

function ownerOf(reference: JsonRecord): OwnerReference {
  return {
    apiVersion: textOf(reference.apiVersion),
    kind: textOf(reference.kind),
    name: textOf(reference.name),
    uid: textOf(reference.uid),
    isController: reference.controller === true,
  };
}
