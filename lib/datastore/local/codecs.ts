/** The other objects: each is one JSON text with the model's own names, checked field by field when it is read. */

import { field, isBoolean, isNumber, isObject, isText, listOf, mapOf, oneOf, optional, parseObject } from "../../json/decode.ts";
import type { NamespacedName } from "../../kubernetes/objects.ts";
import type { EndpointPort, WorkloadEndpoint } from "../../workload/workload-endpoint.ts";
import type { AffinityKey, BlockOwner } from "../datastore.ts";
import {
  type BlockAffinity,
  type ClusterInformation,
  cidrKey,
  type Handle,
  type IPPool,
  type IPReservation,
  type IpamConfiguration,
  type LabelledObject,
  type OwnedObject,
} from "../resources.ts";

const isTexts = listOf(isText);
const isLabels = mapOf(isText);
const isCounts = mapOf(isNumber);
const isOwnerType = oneOf("host", "virtual");

/** Start of the keys of one owner's affinities in one family, and the mark of their blocks that have room. */
export function ownerPrefix(owner: BlockOwner, family: 4 | 6): string {
  return `${owner.type}/${owner.name}/${family}/`;
}

export function affinityKey(key: AffinityKey): string {
  return ownerPrefix(key.owner, key.cidr.includes(":") ? 6 : 4) + cidrKey(key.cidr);
}

export function namespacedKey(key: NamespacedName): string {
  return `${key.namespace}/${key.name}`;
}

export function decodeAffinity(text: string): BlockAffinity {
  const stored = parseObject(text);
  const owner = field(stored, "owner", isObject);
  return {
    owner: { type: field(owner, "type", isOwnerType), name: field(owner, "name", isText) },
    cidr: field(stored, "cidr", isText),
    state: field(stored, "state", oneOf("pending", "confirmed", "pendingDeletion")),
    // Look-ups here go by the key, so there are no labels that could be missing.
    labelled: true,
  };
}

export function decodeHandle(text: string): Handle {
  const stored = parseObject(text);
  return { id: field(stored, "id", isText), blocks: field(stored, "blocks", isCounts) };
}

export function decodePool(text: string): IPPool {
  const stored = parseObject(text);
  return {
    name: field(stored, "name", isText),
    cidr: field(stored, "cidr", isText),
    blockSize: field(stored, "blockSize", isNumber),
    disabled: field(stored, "disabled", isBoolean),
    nodeSelector: field(stored, "nodeSelector", isText),
    namespaceSelector: field(stored, "namespaceSelector", isText),
    allowedUses: field(stored, "allowedUses", isTexts),
    assignmentMode: field(stored, "assignmentMode", isText),
    natOutgoing: field(stored, "natOutgoing", isBoolean),
    deleting: field(stored, "deleting", isBoolean),
    ...optional(stored, "allocatable", isBoolean),
  };
}

export function decodeReservation(text: string): IPReservation {
  const stored = parseObject(text);
  return { name: field(stored, "name", isText), reservedCIDRs: field(stored, "reservedCIDRs", isTexts) };
}

export function decodeIpamConfiguration(text: string): IpamConfiguration {
  const stored = parseObject(text);
  return {
    strictAffinity: field(stored, "strictAffinity", isBoolean),
    autoAllocateBlocks: field(stored, "autoAllocateBlocks", isBoolean),
    maxBlocksPerHost: field(stored, "maxBlocksPerHost", isNumber),
    kubeVirtVMAddressPersistence: field(stored, "kubeVirtVMAddressPersistence", isText),
    ipCooldownSeconds: field(stored, "ipCooldownSeconds", isNumber),
  };
}

export function decodeLabelled(text: string): LabelledObject {
  const stored = parseObject(text);
  return { name: field(stored, "name", isText), labels: field(stored, "labels", isLabels) };
}

export function decodeOwned(text: string): OwnedObject {
  const stored = parseObject(text);
  return {
    namespace: field(stored, "namespace", isText),
    name: field(stored, "name", isText),
    uid: field(stored, "uid", isText),
    labels: field(stored, "labels", isLabels),
    owners: field(stored, "owners", isObjects).map((owner) => ({
      apiVersion: field(owner, "apiVersion", isText),
      kind: field(owner, "kind", isText),
      name: field(owner, "name", isText),
      uid: field(owner, "uid", isText),
      isController: field(owner, "isController", isBoolean),
    })),
    isDeleting: field(stored, "isDeleting", isBoolean),
  };
}

export function decodeClusterInformation(text: string): ClusterInformation {
  return { datastoreReady: optional(parseObject(text), "datastoreReady", isBoolean).datastoreReady };
}

export function decodeEndpoint(text: string): WorkloadEndpoint {
  const stored = parseObject(text);
  return {
    name: field(stored, "name", isText),
    namespace: field(stored, "namespace", isText),
    labels: field(stored, "labels", isLabels),
    orchestrator: field(stored, "orchestrator", isText),
    node: field(stored, "node", isText),
    containerID: field(stored, "containerID", isText),
    pod: field(stored, "pod", isText),
    endpoint: field(stored, "endpoint", isText),
    serviceAccountName: field(stored, "serviceAccountName", isText),
    generateName: field(stored, "generateName", isText),
    ipNetworks: field(stored, "ipNetworks", isTexts),
    ipNATs: field(stored, "ipNATs", isObjects).map((nat) => ({
      internalIP: field(nat, "internalIP", isText),
      externalIP: field(nat, "externalIP", isText),
    })),
    profiles: field(stored, "profiles", isTexts),
    interfaceName: field(stored, "interfaceName", isText),
    mac: field(stored, "mac", isText),
    ports: field(stored, "ports", isObjects).map(decodePort),
    allowSpoofedSourcePrefixes: field(stored, "allowSpoofedSourcePrefixes", isTexts),
  };
}

const isObjects = listOf(isObject);

function decodePort(port: Readonly<Record<string, unknown>>): EndpointPort {
  return {
    name: field(port, "name", isText),
    protocol: field(port, "protocol", isText),
    port: field(port, "port", isNumber),
    hostPort: field(port, "hostPort", isNumber),
    hostIP: field(port, "hostIP", isText),
  };
}
