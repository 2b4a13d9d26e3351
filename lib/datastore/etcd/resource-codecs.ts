/** Calico's v3 resources as etcd keeps them: the specs are those of the custom resources in Kubernetes. */

import { type Fields, field, has, isNumber, isText, listOf, objects, text } from "../../json/decode.ts";
import type { EndpointKey, EndpointPort, WorkloadEndpoint } from "../../workload/workload-endpoint.ts";
import { clusterInformationCodec, reservationCodec } from "../kubernetes/codecs/cluster-codecs.ts";
import type { Codec, Spec } from "../kubernetes/codecs/codec.ts";
import { poolCodec } from "../kubernetes/codecs/pool-codec.ts";
import { V3_GROUP } from "../kubernetes/group.ts";
import type { Profile } from "../profiles.ts";
import type { LabelledObject } from "../resources.ts";
import { type EtcdCodec, resourceCodec } from "./codec.ts";

/** A kind of Calico's that both stores have, by its Kubernetes codec. */
function shared<K extends string, T>(codec: Codec<K, T>, nameOf: (value: T) => string): EtcdCodec<K, T> {
  return resourceCodec<K, T>({
    kind: codec.kind(V3_GROUP),
    plural: codec.plural(V3_GROUP),
    pathOf: (key) => key,
    members: codec.members,
    decode: codec.decode,
    ...(codec.oddityOf && { oddityOf: codec.oddityOf }),
    ...(codec.initial && { initial: codec.initial }),
    metadataOf: (value) => ({ name: nameOf(value) }),
    encode: (value) => codec.encode(value, V3_GROUP),
  });
}

export const poolResource = shared(poolCodec, ({ name }) => name);
export const reservationResource = shared(reservationCodec, ({ name }) => name);
export const clusterInformationResource = shared(clusterInformationCodec, () => "default");

/** Calico's own node objects, which it makes beside those of Kubernetes. */
export const nodeResource: EtcdCodec<string, LabelledObject> = resourceCodec({
  kind: "Node",
  plural: "nodes",
  pathOf: String,
  members: new Set(),
  decode: ({ metadata: { name, labels } }) => ({ name, labels }),
  metadataOf: ({ name, labels }) => ({ name, labels }),
  encode: () => ({}),
});

/** C§2.7. */
export const profileResource: EtcdCodec<string, Profile> = resourceCodec({
  kind: "Profile",
  plural: "profiles",
  pathOf: String,
  members: new Set(["ingress", "egress", "labelsToApply"]),
  decode: ({ metadata: { name }, spec }) => ({ name, ingressSelector: text(section0(spec), "selector") }),
  metadataOf: ({ name }) => ({ name }),
  encode: ({ name, ingressSelector }) => ({
    ingress: [{ action: "Allow", ...(ingressSelector === "" ? {} : { source: { selector: ingressSelector } }) }],
    egress: [{ action: "Allow" }],
    labelsToApply: { [name]: "" },
  }),
});

function section0(spec: Fields): Fields {
  const [first = {}] = objects(spec, "ingress");
  return has(first, "source") ? field(first, "source", (value): value is Fields => typeof value === "object" && value !== null) : {};
}

const isTexts = listOf(isText);

export const endpointResource: EtcdCodec<EndpointKey, WorkloadEndpoint> = resourceCodec<EndpointKey, WorkloadEndpoint>({
  kind: "WorkloadEndpoint",
  plural: "workloadendpoints",
  pathOf: ({ namespace, name }) => `${namespace}/${name}`,
  members: new Set([
    "orchestrator",
    "node",
    "containerID",
    "pod",
    "endpoint",
    "serviceAccountName",
    "ipNetworks",
    "ipNATs",
    "profiles",
    "interfaceName",
    "mac",
    "ports",
    "allowSpoofedSourcePrefixes",
  ]),
  decode: ({ metadata, spec }) => ({
    name: metadata.name,
    namespace: metadata.namespace,
    labels: metadata.labels,
    orchestrator: text(spec, "orchestrator"),
    node: text(spec, "node"),
    containerID: text(spec, "containerID"),
    pod: text(spec, "pod"),
    endpoint: text(spec, "endpoint"),
    serviceAccountName: text(spec, "serviceAccountName"),
    generateName: metadata.generateName,
    ipNetworks: textsOf(spec, "ipNetworks"),
    ipNATs: objects(spec, "ipNATs").map((nat) => ({ internalIP: text(nat, "internalIP"), externalIP: text(nat, "externalIP") })),
    profiles: textsOf(spec, "profiles"),
    interfaceName: text(spec, "interfaceName"),
    mac: text(spec, "mac"),
    ports: objects(spec, "ports").map(decodePort),
    allowSpoofedSourcePrefixes: textsOf(spec, "allowSpoofedSourcePrefixes"),
  }),
  metadataOf: ({ name, namespace, generateName, labels }) => ({
    name,
    generateName: generateName || undefined,
    namespace,
    labels,
  }),
  encode: (endpoint): Spec => ({
    orchestrator: endpoint.orchestrator || undefined,
    node: endpoint.node || undefined,
    containerID: endpoint.containerID || undefined,
    pod: endpoint.pod || undefined,
    endpoint: endpoint.endpoint || undefined,
    serviceAccountName: endpoint.serviceAccountName || undefined,
    ipNetworks: unlessEmpty(endpoint.ipNetworks),
    ipNATs: unlessEmpty(endpoint.ipNATs),
    profiles: unlessEmpty(endpoint.profiles),
    interfaceName: endpoint.interfaceName || undefined,
    mac: endpoint.mac || undefined,
    ports: unlessEmpty(endpoint.ports.map(encodePort)),
    allowSpoofedSourcePrefixes: unlessEmpty(endpoint.allowSpoofedSourcePrefixes),
  }),
});

function textsOf(spec: Fields, name: string): readonly string[] {
  return has(spec, name) ? field(spec, name, isTexts) : [];
}

/** Calico's protocol is a name or a number. */
function decodePort(port: Fields): EndpointPort {
  const { protocol } = port;
  return {
    name: text(port, "name"),
    protocol: isNumber(protocol) ? String(protocol) : text(port, "protocol"),
    port: numberOf(port, "port"),
    hostPort: numberOf(port, "hostPort"),
    hostIP: text(port, "hostIP"),
  };
}

function encodePort({ name, protocol, port, hostPort, hostIP }: EndpointPort): Spec {
  return { name: name || undefined, protocol, port, hostPort: hostPort || undefined, hostIP: hostIP || undefined };
}

function numberOf(object: Fields, name: string): number {
  return has(object, name) ? field(object, name, isNumber) : 0;
}

function unlessEmpty<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}
