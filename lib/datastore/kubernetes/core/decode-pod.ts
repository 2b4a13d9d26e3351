/** A pod as the API server tells it, to the part that Tortie reads. */
import { type Fields, field, flag, has, isNumber, objects, section, text } from "../../../json/decode.ts";
import type { ContainerPort, Pod } from "../../../kubernetes/objects.ts";
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

/** A loop: every ADD comes here (docs/benchmarks.md, first use). */
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
