/** Pods, namespaces and nodes as the API server tells them, reduced to the parts that Tortie reads. */
import {
  type Fields,
  field,
  flag,
  has,
  isNumber,
  isObject,
  isText,
  listOf,
  mapOf,
  objects,
  parseObject,
  section,
  text,
} from "../../../json/decode.ts";
import type { ClusterNode, ContainerPort, Namespace, Pod } from "../../../kubernetes/objects.ts";
import { metadataOf } from "./metadata.ts";

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

function number(object: Fields, name: string): number {
  return has(object, name) ? field(object, name, isNumber) : 0;
}

/** Labels that Calico keeps for a node beside Kubernetes' own (I§3.1). */
const LABELS_ANNOTATION = "projectcalico.org/labels";

const isTextList = listOf(isText);

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
    podCIDRs: has(spec, "podCIDRs") ? field(spec, "podCIDRs", isTextList) : [],
  };
}

/** Whatever else the annotation holds counts as no labels: a node must not lose its addresses for a slip in an annotation. */
function labelsIn(annotation: string): Readonly<Record<string, string>> {
  try {
    const parsed = parseObject(annotation);
    return isObject(parsed) && mapOf(isText)(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
