/**
 * Decodes what an administrator writes: pools (I§2.7), with the defaults that hold where a field is absent or empty, reservations (I§2.8) and
 * the IPAM configuration (I§2.6); and whether the cluster is ready.
 */
import { formatPrefix, maskPrefix, parsePrefix } from "../../addresses/address.ts";
import {
  type Fields,
  field,
  flag,
  has,
  isBoolean,
  number,
  objects,
  type Readers,
  readAll,
  section,
  text,
  textList,
} from "../../json/decode.ts";
import type { Selection } from "../../kubernetes/watch/kubernetes-feed.ts";
import type { ClusterInformation, IPPool, IPReservation, IpamConfiguration } from "../resources.ts";
import { type ApiGroup, type Codec, LEGACY_GROUP, named, nameOfObject, type Resource, type Spec } from "./codec.ts";
import { resourceSelection, type Watched } from "./stored-kind.ts";

const DEFAULT_USES = ["Workload", "Tunnel"];

const SPEC: Readers<Omit<IPPool, "name" | "deleting" | "allocatable">> = {
  cidr: text,
  blockSize: number,
  disabled: flag,
  nodeSelector: text,
  namespaceSelector: text,
  allowedUses: textList,
  assignmentMode: text,
  natOutgoing: flag,
};

export const poolCodec: Codec<string, IPPool> = {
  ...named("IPPool", "ippools"),
  members: new Set(Object.keys(SPEC)),
  nameOf: nameOfObject,
  decode,
  encode,
  oddityOf: ({ assignmentMode: word }) =>
    word === "Automatic" || word === "Manual" ? undefined : `assignmentMode "${word}" is not known, and counts as Manual`,
  initial: { ipipMode: "Never", vxlanMode: "Never" },
};

function decode({ metadata, spec, status }: Resource): IPPool {
  const stored = readAll(SPEC, spec);
  const cidr = canonicalCidr(stored.cidr);
  return {
    name: metadata.name,
    ...stored,
    cidr,
    blockSize: stored.blockSize || (cidr.includes(":") ? 122 : 26),
    nodeSelector: stored.nodeSelector || "all()",
    allowedUses: stored.allowedUses.length === 0 ? DEFAULT_USES : stored.allowedUses,
    assignmentMode: stored.assignmentMode || "Automatic",
    deleting: metadata.isDeleting,
    allocatable: condition(status, "Allocatable"),
  };
}

/** An invalid CIDR stays as it is: the allocator skips the pool, and lists show it. */
export function canonicalCidr(cidr: string): string {
  const prefix = parsePrefix(cidr);
  return prefix === undefined ? cidr : formatPrefix(maskPrefix(prefix));
}

function condition(status: Fields, type: string): boolean | undefined {
  const found = objects(status, "conditions").find((entry) => text(entry, "type") === type);
  const value = found === undefined ? "Unknown" : text(found, "status");
  return value === "True" || value === "False" ? value === "True" : undefined;
}

function encode(pool: IPPool): Spec {
  return {
    allowedUses: pool.allowedUses,
    assignmentMode: pool.assignmentMode,
    blockSize: pool.blockSize,
    cidr: pool.cidr,
    disabled: pool.disabled,
    namespaceSelector: pool.namespaceSelector || undefined,
    natOutgoing: pool.natOutgoing,
    nodeSelector: pool.nodeSelector,
  };
}

/** A pool as a watch has it: also with the fields that addresses do not depend on. */
export interface WatchedPool extends Watched<IPPool> {
  readonly spec: Fields;
}

/** Selects all pools, for whoever watches them once for several readers. */
export function poolSelection(group: ApiGroup): Selection<WatchedPool> {
  const selection = resourceSelection(poolCodec, group);
  return { ...selection, decode: (object) => ({ ...selection.decode(object), spec: section(object, "spec") }) };
}

export const reservationCodec: Codec<string, IPReservation> = {
  ...named("IPReservation", "ipreservations"),
  members: new Set(["reservedCIDRs"]),
  nameOf: nameOfObject,
  decode: ({ metadata, spec }) => ({ name: metadata.name, reservedCIDRs: textList(spec, "reservedCIDRs") }),
  encode: ({ reservedCIDRs }) => ({ reservedCIDRs }),
};

const CONFIGURATION: Readers<IpamConfiguration> = {
  strictAffinity: flag,
  autoAllocateBlocks: flag,
  maxBlocksPerHost: number,
  kubeVirtVMAddressPersistence: (spec, name) => text(spec, name) || "Enabled",
  ipCooldownSeconds: number,
};

export const configurationCodec: Codec<"default", IpamConfiguration> = {
  title: "IPAMConfig",
  members: new Set(Object.keys(CONFIGURATION)),
  kind: (group) => (group === LEGACY_GROUP ? "IPAMConfig" : "IPAMConfiguration"),
  plural: (group) => (group === LEGACY_GROUP ? "ipamconfigs" : "ipamconfigurations"),
  nameOf: nameOfObject,
  decode: ({ spec }) => readAll(CONFIGURATION, spec),
  encode: (configuration): Spec => ({ ...configuration }),
  oddityOf: ({ kubeVirtVMAddressPersistence: word }) =>
    word === "Enabled" || word === "Disabled" ? undefined : `kubeVirtVMAddressPersistence "${word}" is not known, and counts as Enabled`,
};

export const clusterInformationCodec: Codec<"default", ClusterInformation> = {
  ...named("ClusterInformation", "clusterinformations"),
  members: new Set(["datastoreReady"]),
  nameOf: nameOfObject,
  decode: ({ spec }) => ({ datastoreReady: has(spec, "datastoreReady") ? field(spec, "datastoreReady", isBoolean) : undefined }),
  encode: ({ datastoreReady }) => ({ datastoreReady }),
};
