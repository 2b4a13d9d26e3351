/**
 * Decodes the Kubernetes objects that are not Calico's, as far as Tortie reads them. Absent, null and empty mean the same to the API, and
 * so they do here.
 */
import { type Fields, flag, isText, mapOf, number, objects, parsedObject, section, text, textList, texts } from "../json/decode.ts";

export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

/** An owner of an object (metadata.ownerReferences). */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly isController: boolean;
}

export interface ContainerPort {
  /** Empty when the port has none. */
  readonly name: string;
  /** As the API gives it; empty means TCP. */
  readonly protocol: string;
  readonly containerPort: number;
  /** 0 when absent. */
  readonly hostPort: number;
  readonly hostIP: string;
}

/** The part that every Kubernetes object has; the namespace of a cluster-scoped one is empty. */
export interface Metadata extends NamespacedName {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owners: readonly OwnerReference[];
  readonly generateName: string;
  /** RFC 3339; empty when absent. */
  readonly creationTimestamp: string;
  /** deletionTimestamp is set. */
  readonly isDeleting: boolean;
}

export interface Pod extends Metadata {
  /** `spec.nodeName`; empty while the pod is not scheduled. */
  readonly nodeName: string;
  readonly serviceAccountName: string;
  readonly isHostNetwork: boolean;
  /** Of `spec.containers`, then of `spec.initContainers`. */
  readonly ports: readonly ContainerPort[];
  /** `status.phase`. */
  readonly phase: string;
  /** `status.podIP`; empty when absent. */
  readonly podIP: string;
  /** `status.podIPs[].ip`. */
  readonly podIPs: readonly string[];
}

export type Namespace = Pick<Metadata, "name" | "labels" | "annotations">;

export interface ClusterNode {
  readonly name: string;
  /** Labels of the annotation `projectcalico.org/labels`, overlaid by the node's own (I§3.1). */
  readonly labels: Readonly<Record<string, string>>;
  /** `spec.podCIDRs`. */
  readonly podCIDRs: readonly string[];
}

/**
 * A static pod goes by the digest of its file at the runtime; its mirror at the API server says which (kubelet, kubetypes). The mirror's
 * own UID is another one each time that it is made.
 */
const RUNTIME_UIDS = ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"];

/** Lists every UID that stands for the pod. */
export function uidsOfPod({ uid, annotations }: Pick<Pod, "uid" | "annotations">): readonly string[] {
  return [uid, ...RUNTIME_UIDS.flatMap((name) => annotations[name] ?? [])];
}

/** Tells whether the runtime means this pod by a K8S_POD_UID: another pod of the same name has none of its UIDs. */
export function isPodOfUid(pod: Pick<Pod, "uid" | "annotations">, podUid: string): boolean {
  return uidsOfPod(pod).includes(podUid);
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

/** Names a state of an object: "<uid>/<resourceVersion>". @throws Error when the object has none */
export function revisionOf({ uid, resourceVersion }: Pick<Metadata, "uid" | "resourceVersion">): string {
  if (uid === "" || resourceVersion === "") throw new Error("metadata.uid or metadata.resourceVersion is missing");
  return `${uid}/${resourceVersion}`;
}

/** Reads the two preconditions that a revision stands for. */
export function preconditionsOf(revision: string): { readonly uid: string; readonly resourceVersion: string } {
  const slash = revision.indexOf("/");
  return { uid: revision.slice(0, slash), resourceVersion: revision.slice(slash + 1) };
}

/** @throws Error naming the field that is of the wrong type */
export function decodePod(object: Fields): Pod {
  const spec = section(object, "spec");
  const status = section(object, "status");
  const containers = [...objects(spec, "containers"), ...objects(spec, "initContainers")];
  return {
    ...metadataOf(object),
    nodeName: text(spec, "nodeName"),
    serviceAccountName: text(spec, "serviceAccountName"),
    isHostNetwork: flag(spec, "hostNetwork"),
    ports: decodePorts(containers),
    phase: text(status, "phase"),
    podIP: text(status, "podIP"),
    podIPs: objects(status, "podIPs").map((entry) => text(entry, "ip")),
  };
}

/** A loop: every ADD comes here (docs/project/benchmarks.md, first use). */
function decodePorts(containers: readonly Fields[]): readonly ContainerPort[] {
  const ports: ContainerPort[] = [];
  for (const container of containers) {
    for (const port of objects(container, "ports")) ports.push(decodePort(port));
  }
  return ports;
}

function decodePort(port: Fields): ContainerPort {
  return {
    name: text(port, "name"),
    protocol: text(port, "protocol"),
    containerPort: number(port, "containerPort"),
    hostPort: number(port, "hostPort"),
    hostIP: text(port, "hostIP"),
  };
}

/** Labels that Calico keeps for a node beside Kubernetes' own (I§3.1). */
const LABELS_ANNOTATION = "projectcalico.org/labels";

export function decodeNamespace(object: Fields): Namespace {
  const { name, labels, annotations } = metadataOf(object);
  return { name, labels, annotations };
}

export function decodeNode(object: Fields): ClusterNode {
  const { name, labels, annotations } = metadataOf(object);
  const spec = section(object, "spec");
  return {
    name,
    labels: { ...labelsIn(annotations[LABELS_ANNOTATION] ?? ""), ...labels },
    podCIDRs: textList(spec, "podCIDRs"),
  };
}

/** Whatever else the annotation holds counts as no labels: a node must not lose its addresses for a slip in an annotation. */
function labelsIn(annotation: string): Readonly<Record<string, string>> {
  const parsed = parsedObject(annotation);
  return mapOf(isText)(parsed) ? parsed : {};
}
