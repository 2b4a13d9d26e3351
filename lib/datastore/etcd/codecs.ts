/** Describes each kind of object in etcd: where its keys lie, and its JSON to a value of the model and back (I§2.9, C§7.4). */
import { IDENTITY_MEMBERS, type IdentityRecord, numberOf } from "../../identity/identity-object.ts";
import {
  type Fields,
  flag,
  isNumber,
  number,
  objects,
  parseObject,
  type Readers,
  readAll,
  section,
  text,
  textList,
} from "../../json/decode.ts";
import type { EndpointKey, EndpointPort, WorkloadEndpoint } from "../../workload/endpoint.ts";
import { affinityStateOf } from "../calico/affinity.ts";
import { decodeBlock, encodeBlock, handleCounts, quoteSequenceNumbers, verifyBlock } from "../calico/block.ts";
import { type Codec, named, resourceOf, type Spec, V3_GROUP } from "../calico/codec.ts";
import { clusterInformationCodec, poolCodec, reservationCodec } from "../calico/pool.ts";
import type { Kept } from "../calico/stored-kind.ts";
import type { AffinityKey, Profile } from "../datastore.ts";
import type { Block, BlockAffinity, BlockOwner, Handle, IPPool, IPReservation, IpamConfiguration, LabelledObject } from "../resources.ts";
import { sanitised } from "../resources.ts";
import type { KeyValue } from "./answers.ts";

export interface EtcdCodec<K, T> extends Pick<Codec<K, T>, "title" | "prepare" | "verify" | "oddityOf" | "members"> {
  /** Begins all keys of the kind, or of those that `list` of its collection means. */
  readonly prefix: string;
  readonly keyOf: (key: K) => string;
  /** @throws Error saying what is wrong with the object */
  readonly decode: (stored: Fields, key: string) => T;
  /** Where fields that the model does not know may stand, so that an update writes them back. */
  readonly partsOf: (stored: Fields) => Fields;
  /** @param kept what the stored object has beyond the model; absent for a new one */
  readonly encode: (value: T, kept: Kept | undefined) => Fields;
}

/** @throws Error saying what is wrong with the value of this key */
export function parseStored<K, T>(codec: EtcdCodec<K, T>, { key, value: text }: KeyValue): { readonly stored: Fields; readonly value: T } {
  const stored = parseObject(codec.prepare?.(text) ?? text);
  return { stored, value: codec.decode(stored, key) };
}

// The IPAM objects that only etcd keeps flat, without kind and metadata: all their members stand side by side.

type Flat<K, T> = Omit<EtcdCodec<K, T>, "partsOf" | "encode"> & { readonly encode: (value: T) => Spec };

function flatCodec<K, T>(codec: Flat<K, T>): EtcdCodec<K, T> {
  return { ...codec, partsOf: (stored) => ({ spec: stored }), encode: (value, kept) => ({ ...kept?.spec, ...codec.encode(value) }) };
}

const IPAM = "/calico/ipam/v2";
const BLOCKS = `${IPAM}/assignment/`;
const HANDLES = `${IPAM}/handle/`;
const CONFIGURATION = `${IPAM}/config`;
/** Where the affinities of each type of owner lie. */
export const AFFINITIES: Readonly<Record<BlockOwner["type"], string>> = { host: `${IPAM}/host/`, virtual: `${IPAM}/virtual/` };

/** Writes a CIDR as a key: only the slash becomes a dash. */
function familyPath(cidr: string): string {
  return `ipv${cidr.includes(":") ? 6 : 4}/block/${cidr.replace("/", "-")}`;
}

export const blockCodec: EtcdCodec<string, Block> = flatCodec({
  title: "IPAMBlock",
  members: new Set([
    "cidr",
    "affinity",
    "affinity_claim_time",
    "allocations",
    "unallocated",
    "attributes",
    "sequenceNumber",
    "sequenceNumberForAllocation",
    "deleted",
  ]),
  prefix: BLOCKS,
  keyOf: (cidr) => BLOCKS + familyPath(cidr),
  prepare: quoteSequenceNumbers,
  decode: ({ affinity_claim_time: affinityClaimTime, ...stored }, key) =>
    decodeBlock({ ...stored, affinityClaimTime }, `IPAMBlock(${key})`),
  verify: verifyBlock,
  encode: (block) => {
    const { affinityClaimTime, strictAffinity, affinity, ...others } = encodeBlock(block);
    // Calico's clients write null for a block without owner, and read nothing else as none.
    return { ...others, affinity: affinity ?? null, affinity_claim_time: affinityClaimTime };
  },
});

const AFFINITY = /^\/calico\/ipam\/v2\/(host|virtual)\/(.+)\/ipv[46]\/block\/(.+)-(\d+)$/;

/** Tells whether a key below an owner is that of an affinity; a host's marker lies there too. */
export function isAffinityKey(key: string): boolean {
  return AFFINITY.test(key);
}

export function affinityPrefix({ type, name }: BlockOwner, family: 4 | 6): string {
  return `${AFFINITIES[type]}${name}/ipv${family}/block/`;
}

export const affinityCodec: EtcdCodec<AffinityKey, BlockAffinity> = flatCodec<AffinityKey, BlockAffinity>({
  title: "BlockAffinity",
  members: new Set(["state", "deleted"]),
  prefix: AFFINITIES.host,
  keyOf: ({ owner, cidr }) => `${AFFINITIES[owner.type]}${owner.name}/${familyPath(cidr)}`,
  // Calico reads an empty value as a confirmed affinity.
  prepare: (json) => (json === "" ? "{}" : json),
  decode: (stored, key) => {
    const [, type, name = "", address = "", length = ""] = AFFINITY.exec(key) ?? [];
    if (type !== "host" && type !== "virtual") throw new Error("its key is not that of an affinity");
    // Look-ups go by the key, so that there are no labels that could be missing.
    return { owner: { type, name }, cidr: `${address}/${length}`, state: affinityStateOf(stored), labelled: true };
  },
  encode: ({ state }) => ({ state, deleted: false }),
});

export const handleCodec: EtcdCodec<string, Handle> = flatCodec({
  title: "IPAMHandle",
  members: new Set(["block", "deleted"]),
  prefix: HANDLES,
  keyOf: (id) => HANDLES + id,
  decode: (stored, key) => ({ id: sanitised(key.slice(HANDLES.length)), blocks: handleCounts(stored) }),
  encode: ({ blocks }) => ({ block: blocks, deleted: false }),
});

/** The allocator's own key, beside which the resource IPAMConfiguration exists. Members that are false or 0 are left out. */
export const configurationCodec: EtcdCodec<"default", IpamConfiguration> = flatCodec({
  title: "IPAMConfig",
  members: new Set(["strict_affinity", "auto_allocate_blocks", "maxBlocksPerHost", "kubeVirtVMAddressPersistence", "ipCooldownSeconds"]),
  prefix: CONFIGURATION,
  keyOf: () => CONFIGURATION,
  decode: (stored) => ({
    strictAffinity: flag(stored, "strict_affinity"),
    autoAllocateBlocks: flag(stored, "auto_allocate_blocks"),
    maxBlocksPerHost: number(stored, "maxBlocksPerHost"),
    kubeVirtVMAddressPersistence: text(stored, "kubeVirtVMAddressPersistence") || "Enabled",
    ipCooldownSeconds: number(stored, "ipCooldownSeconds"),
  }),
  encode: (configuration) => ({
    strict_affinity: configuration.strictAffinity || undefined,
    auto_allocate_blocks: configuration.autoAllocateBlocks || undefined,
    maxBlocksPerHost: configuration.maxBlocksPerHost || undefined,
    kubeVirtVMAddressPersistence: configuration.kubeVirtVMAddressPersistence,
    ipCooldownSeconds: configuration.ipCooldownSeconds || undefined,
  }),
});

/** Beside Calico's own keys, so that the rights of Calico's users reach it; no client of Calico's reads there. */
const IDENTITIES = "/calico/tortie/identities/";

export const identityCodec: EtcdCodec<number, IdentityRecord> = flatCodec({
  title: "Identity",
  members: new Set([...Object.keys(IDENTITY_MEMBERS), "keeper"]),
  prefix: IDENTITIES,
  keyOf: (number) => IDENTITIES + number,
  decode: (stored, key) => ({
    number: numberOf(key.slice(IDENTITIES.length)),
    ...readAll(IDENTITY_MEMBERS, stored),
    keeper: text(stored, "keeper"),
  }),
  encode: ({ number: _, ...identity }) => identity,
});

// Calico's v3 resources: the whole object is the value, without a resourceVersion, which is etcd's revision.

type ResourceKind<K, T> = Omit<Codec<K, T>, "nameOf" | "labels" | "prepare" | "verify">;

/**
 * Describes a kind of Calico's by the codec of its custom resource.
 * @param metadataOf the metadata that an object is written with, beside what it has
 * @param pathOf its key below the root of the kind
 */
function resourceCodec<K, T>(codec: ResourceKind<K, T>, metadataOf: (value: T) => Spec, pathOf: (key: K) => string): EtcdCodec<K, T> {
  const { title, members, oddityOf } = codec;
  const kind = codec.kind(V3_GROUP);
  const prefix = `/calico/resources/v3/projectcalico.org/${codec.plural(V3_GROUP)}/`;
  return {
    title,
    members,
    oddityOf,
    prefix,
    keyOf: (key) => prefix + pathOf(key),
    partsOf: (stored) => stored,
    decode: (stored) => codec.decode(resourceOf(stored)),
    encode: (value, kept) => {
      const born = { uid: crypto.randomUUID(), creationTimestamp: `${new Date().toISOString().slice(0, 19)}Z` };
      return {
        ...kept?.others,
        kind,
        apiVersion: "projectcalico.org/v3",
        metadata: { ...(kept?.metadata ?? born), ...metadataOf(value) },
        spec: { ...(kept === undefined ? codec.initial : kept.spec), ...codec.encode(value, V3_GROUP) },
      };
    },
  };
}

export const poolResource = resourceCodec<string, IPPool>(poolCodec, ({ name }) => ({ name }), String);
export const reservationResource = resourceCodec<string, IPReservation>(reservationCodec, ({ name }) => ({ name }), String);
export const clusterInformationResource = resourceCodec(clusterInformationCodec, () => ({ name: "default" }), String);

/** Calico's own node objects, which it makes beside those of Kubernetes. */
export const nodeResource = resourceCodec<string, LabelledObject>(
  {
    ...named("Node", "nodes"),
    members: new Set(),
    decode: ({ metadata: { name, labels } }) => ({ name, labels }),
    encode: () => ({}),
  },
  ({ name, labels }) => ({ name, labels }),
  String,
);

/** C§2.7. */
export const profileResource = resourceCodec<string, Profile>(
  {
    ...named("Profile", "profiles"),
    members: new Set(["ingress", "egress", "labelsToApply"]),
    decode: ({ metadata: { name }, spec }) => ({ name, ingressSelector: text(firstSource(spec), "selector") }),
    encode: ({ name, ingressSelector }) => ({
      ingress: [{ action: "Allow", source: ingressSelector === "" ? undefined : { selector: ingressSelector } }],
      egress: [{ action: "Allow" }],
      labelsToApply: { [name]: "" },
    }),
  },
  ({ name }) => ({ name }),
  String,
);

function firstSource(spec: Fields): Fields {
  const [first = {}] = objects(spec, "ingress");
  return section(first, "source");
}

const PORT: Readers<EndpointPort> = {
  name: text,
  // Calico's protocol is a name or a number.
  protocol: (port, name) => (isNumber(port[name]) ? String(port[name]) : text(port, name)),
  port: number,
  hostPort: number,
  hostIP: text,
};

const ENDPOINT: Readers<
  Omit<WorkloadEndpoint, "name" | "namespace" | "labels" | "generateName" | "annotations" | "qosControls" | "isClaimed">
> = {
  orchestrator: text,
  node: text,
  containerID: text,
  pod: text,
  endpoint: text,
  serviceAccountName: text,
  ipNetworks: textList,
  ipNATs: (spec, name) => objects(spec, name).map((nat) => ({ internalIP: text(nat, "internalIP"), externalIP: text(nat, "externalIP") })),
  profiles: textList,
  interfaceName: text,
  mac: text,
  ports: (spec, name) => objects(spec, name).map((port) => readAll(PORT, port)),
  allowSpoofedSourcePrefixes: textList,
};

export const endpointResource = resourceCodec<EndpointKey, WorkloadEndpoint>(
  {
    ...named("WorkloadEndpoint", "workloadendpoints"),
    members: new Set(Object.keys(ENDPOINT)),
    decode: ({ metadata: { name, namespace, labels, generateName }, spec }) => ({
      name,
      namespace,
      labels,
      generateName,
      ...readAll(ENDPOINT, spec),
    }),
    encode: (endpoint) => ({
      ...withoutEmpty(pick(ENDPOINT, endpoint)),
      ports: endpoint.ports.length === 0 ? undefined : endpoint.ports.map((port) => withoutEmpty(pick(PORT, port))),
    }),
  },
  ({ name, namespace, generateName, labels }) => ({ name, generateName: generateName || undefined, namespace, labels }),
  ({ namespace, name }) => `${namespace}/${name}`,
);

/** Picks the members that `readers` names, in their order. */
function pick<T>(readers: Readers<T>, value: T): Spec {
  const picked: Record<string, unknown> = {};
  for (const name in readers) picked[name] = value[name];
  return picked;
}

/** Writes as Go does members that it may leave out (`omitempty`). */
function withoutEmpty(members: Spec): Spec {
  const isEmpty = (value: unknown) => value === "" || value === 0 || value === false || (Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(members).filter(([, value]) => !isEmpty(value)));
}
