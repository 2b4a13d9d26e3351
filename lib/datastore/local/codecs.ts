/**
 * Describes each kind of object in the local store: its key, and its text to a value of the model and back. But for blocks it is one JSON
 * text with the model's own names, checked field by field when it is read.
 */
import { cidrKey } from "../../addresses/address.ts";
import type { IdentityRecord } from "../../identity/identity-object.ts";
import {
  isNumber,
  isObject,
  isText,
  listOf,
  mapOf,
  may,
  must,
  mustList,
  oneOf,
  parseObject,
  type Reader,
  type Readers,
  readAll,
} from "../../json/decode.ts";
import { flag, number, text } from "../../json/shape.ts";
import type { NamespacedName, OwnerReference } from "../../kubernetes/objects.ts";
import type { EndpointKey, EndpointPort, WorkloadEndpoint } from "../../workload/endpoint.ts";
import { lateBlock } from "../calico/block.ts";
import type { AffinityKey } from "../datastore.ts";
import {
  type AllocationAttribute,
  type Block,
  type BlockAffinity,
  type BlockOwner,
  type ClusterInformation,
  type Handle,
  hasRoom,
  type IPPool,
  type IPReservation,
  type IpamConfiguration,
  type LabelledObject,
  type OwnedObject,
} from "../resources.ts";
import type { Kind, StoredObject, StoredText } from "./object-store.ts";

export interface LocalCodec<K, T> {
  readonly kind: Kind;
  readonly keyOf: (key: K) => string;
  readonly encode: (value: T) => StoredText;
  /** `refuse` is for what is decoded late; what it throws at once is refused by the collection. */
  readonly decode: (text: StoredObject, refuse: (cause: unknown) => never) => T;
}

const texts = must(listOf(isText));
const labels = must(mapOf(isText));

/** Writes the start of the keys of one owner's affinities in one family, and the mark of their blocks that have room. */
export function ownerPrefix(owner: BlockOwner, family: 4 | 6): string {
  return `${owner.type}/${owner.name}/${family}/`;
}

export function namespacedKey(key: NamespacedName): string {
  return `${key.namespace}/${key.name}`;
}

/** @param readers of a value's members, in the order in which a value that was read has them */
function plain<K, T>(kind: Kind, keyOf: (key: K) => string, readers: Readers<T>): LocalCodec<K, T> {
  return {
    kind,
    keyOf,
    encode: (value) => ({ value: JSON.stringify(value), detail: null, room: null }),
    decode: ({ value }) => readAll(readers, parseObject(value)),
  };
}

const OWNER: Readers<BlockOwner> = { type: must(oneOf("host", "virtual")), name: text };

export const affinityCodec = plain<AffinityKey, BlockAffinity>(
  "affinity",
  ({ owner, cidr }) => ownerPrefix(owner, cidr.includes(":") ? 6 : 4) + cidrKey(cidr),
  {
    owner: (stored, name) => readAll(OWNER, must(isObject)(stored, name)),
    cidr: text,
    state: must(oneOf("pending", "confirmed", "pendingDeletion")),
    // Look-ups here go by the key, so there are no labels that could be missing.
    labelled: () => true,
  },
);

export const handleCodec = plain<string, Handle>("handle", String, { id: text, blocks: must(mapOf(isNumber)) });

export const poolCodec = plain<string, IPPool>("pool", String, {
  name: text,
  cidr: text,
  blockSize: number,
  disabled: flag,
  nodeSelector: text,
  namespaceSelector: text,
  allowedUses: texts,
  assignmentMode: text,
  natOutgoing: flag,
  deleting: flag,
  allocatable: may(flag),
});

export const reservationCodec = plain<string, IPReservation>("reservation", String, { name: text, reservedCIDRs: texts });

export const configurationCodec = plain<"default", IpamConfiguration>("ipam-configuration", String, {
  strictAffinity: flag,
  autoAllocateBlocks: flag,
  maxBlocksPerHost: number,
  kubeVirtVMAddressPersistence: text,
  ipCooldownSeconds: number,
});

export const clusterInformationCodec = plain<"default", ClusterInformation>("cluster-information", String, {
  datastoreReady: may(flag),
});

/** Describes a node or a namespace. */
export function labelledCodec(kind: "node" | "namespace"): LocalCodec<string, LabelledObject> {
  return plain<string, LabelledObject>(kind, String, { name: text, labels });
}

export const OWNED_KINDS = ["pod", "virtual-machine-instance", "virtual-machine"] as const;

export const identityCodec = plain<number, IdentityRecord>("identity", String, {
  number,
  key: text,
  labels: texts,
  state: must(oneOf("active", "retired")),
  retiredAt: text,
  createdBy: text,
  createdAt: text,
  keeper: text,
});

const REFERENCE: Readers<OwnerReference> = { apiVersion: text, kind: text, name: text, uid: text, isController: flag };

/** Describes a pod or an object of KubeVirt. */
export function ownedCodec(kind: (typeof OWNED_KINDS)[number]): LocalCodec<NamespacedName, OwnedObject> {
  const readers = { namespace: text, name: text, uid: text, labels, owners: mustList(REFERENCE), isDeleting: flag };
  return plain<NamespacedName, OwnedObject>(kind, namespacedKey, readers);
}

const PORT: Readers<EndpointPort> = { name: text, protocol: text, port: number, hostPort: number, hostIP: text };

const absent: Reader<undefined> = () => undefined;

export const endpointCodec = plain<EndpointKey, WorkloadEndpoint>("endpoint", namespacedKey, {
  name: text,
  namespace: text,
  labels,
  orchestrator: text,
  node: text,
  containerID: text,
  pod: text,
  endpoint: text,
  serviceAccountName: text,
  generateName: text,
  ipNetworks: texts,
  ipNATs: mustList({ internalIP: text, externalIP: text }),
  profiles: texts,
  interfaceName: text,
  mac: text,
  ports: mustList(PORT),
  allowSpoofedSourcePrefixes: texts,
  // What only a view of a pod has.
  isClaimed: absent,
  annotations: absent,
  qosControls: absent,
});

const ATTRIBUTE: Readers<{ handle_id?: string; secondary?: Words; alternateOwnerAttrs?: Words; releasedAt?: string }> = {
  handle_id: may(text),
  secondary: may(labels),
  alternateOwnerAttrs: may(labels),
  releasedAt: may(text),
};

type Words = Readonly<Record<string, string>>;

/**
 * A block is two texts: what choosing a block needs (owner, free ordinals, sequence number), and the record of every address. A list of
 * blocks decodes the second text only of the blocks whose allocations are used. Sequence numbers are decimal text, because they pass 2^53
 * (I§2.4); the names are those of Calico's objects.
 */
export const blockCodec: LocalCodec<string, Block> = {
  kind: "block",
  keyOf: cidrKey,
  encode: (block) => ({
    value: JSON.stringify({
      cidr: block.cidr,
      affinity: block.affinity && `${block.affinity.type}:${block.affinity.name}`,
      affinityClaimTime: block.affinityClaimTime,
      unallocated: block.unallocated,
      sequenceNumber: String(block.sequenceNumber),
    }),
    detail: JSON.stringify({
      allocations: block.allocations,
      attributes: block.attributes.map(encodeAttribute),
      sequenceNumberForAllocation: asTexts(block.sequenceNumberForAllocation),
    }),
    room: hasRoom(block) && block.affinity !== undefined ? ownerPrefix(block.affinity, block.cidr.includes(":") ? 6 : 4) : null,
  }),
  decode: ({ value, detail }, refuse) =>
    lateBlock(parseObject(value), { details: () => parseObject(detail ?? ""), attribute: decodeAttribute, refuse }),
};

function asTexts(numbers: Readonly<Record<number, bigint>>): Words {
  return Object.fromEntries(Object.entries(numbers).map(([ordinal, number]) => [ordinal, String(number)]));
}

/** An owner without attributes is kept here, where Calico's objects leave it out. */
function encodeAttribute(attribute: AllocationAttribute): Record<string, unknown> {
  return {
    handle_id: attribute.handleId,
    secondary: attribute.activeOwner,
    alternateOwnerAttrs: attribute.alternateOwner,
    releasedAt: attribute.releasedAt,
  };
}

function decodeAttribute(stored: Readonly<Record<string, unknown>>): AllocationAttribute {
  const { handle_id, secondary, alternateOwnerAttrs, releasedAt } = readAll(ATTRIBUTE, stored);
  return { handleId: handle_id, activeOwner: secondary, alternateOwner: alternateOwnerAttrs, releasedAt };
}
