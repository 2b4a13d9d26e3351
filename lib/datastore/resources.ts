/**
 * Defines what is stored, in the model's own terms (I§2): drivers translate to and from the wire names of Kubernetes, etcd and SQLite.
 * CIDRs are canonical text ("10.40.0.8/29", masked, RFC 5952) because they are keys as well; times are RFC 3339 text.
 */
import type { Metadata } from "../kubernetes/objects.ts";

/** Owner of a block (I§0): a node, or the virtual owner of load balancer addresses. */
export interface BlockOwner {
  readonly type: "host" | "virtual";
  readonly name: string;
}

/** I§2.7. Defaults are filled in by the driver on read. */
export interface IPPool {
  readonly name: string;
  readonly cidr: string;
  readonly blockSize: number;
  readonly disabled: boolean;
  readonly nodeSelector: string;
  readonly namespaceSelector: string;
  readonly allowedUses: readonly string[];
  /** `Automatic`, or `Manual`: only for requests that name the pool. Any other word counts as `Manual`, as in Calico. */
  readonly assignmentMode: string;
  readonly natOutgoing: boolean;
  /** deletionTimestamp is set: no more allocations. */
  readonly deleting: boolean;
  /** status.conditions[Allocatable]; `undefined` when no controller has set it. */
  readonly allocatable?: boolean;
}

/** I§2.8: CIDRs or bare addresses, malformed ones are skipped by the reader. */
export interface IPReservation {
  readonly name: string;
  readonly reservedCIDRs: readonly string[];
}

/** The cluster's settings of IPAM (I§2.6). */
export interface IpamConfiguration {
  readonly strictAffinity: boolean;
  readonly autoAllocateBlocks: boolean;
  /** 0 means 20. */
  readonly maxBlocksPerHost: number;
  /** `Enabled` or `Disabled`. Any other word counts as `Enabled`, as in Calico. */
  readonly kubeVirtVMAddressPersistence: string;
  readonly ipCooldownSeconds: number;
}

/** Why an ordinal is taken (I§2.4). In cooldown only `releasedAt` is set. */
export interface AllocationAttribute {
  readonly handleId?: string;
  /** `secondary` on the wire: the active owner. */
  readonly activeOwner?: Readonly<Record<string, string>>;
  readonly alternateOwner?: Readonly<Record<string, string>>;
  readonly releasedAt?: string;
}

/** I§2.4: the unit of compare-and-swap. */
export interface Block {
  readonly cidr: string;
  /** Absent: no node owns the block. */
  readonly affinity?: BlockOwner;
  readonly affinityClaimTime?: string;
  /** One entry an address: index into `attributes`, or null when free. */
  readonly allocations: readonly (number | null)[];
  /** Free ordinals, taken from the head, returned at the tail. */
  readonly unallocated: readonly number[];
  readonly attributes: readonly AllocationAttribute[];
  /** 64 bit; starts as nanoseconds since 1970, +1 at every update. */
  readonly sequenceNumber: bigint;
  readonly sequenceNumberForAllocation: Readonly<Record<number, bigint>>;
}

/** Lists a free ordinal, or one in cooldown, which becomes free by the passing of time alone. */
export function hasRoom({ unallocated, attributes }: Pick<Block, "unallocated" | "attributes">): boolean {
  return unallocated.length > 0 || attributes.some(({ releasedAt }) => releasedAt !== undefined);
}

export type AffinityState = "pending" | "confirmed" | "pendingDeletion";

/** I§2.3. An empty stored state is read as "confirmed". */
export interface BlockAffinity {
  readonly owner: BlockOwner;
  readonly cidr: string;
  readonly state: AffinityState;
  /** The three look-up labels are all right; drivers write them always, and say here what they found. */
  readonly labelled: boolean;
}

/** I§2.5: how many addresses of each block a handle holds. */
export interface Handle {
  /** As first written, case kept. */
  readonly id: string;
  /** Canonical block CIDR → count, at least 1. */
  readonly blocks: Readonly<Record<string, number>>;
}

/** Cuts a handle ID at the first carriage return: old migrations stored one (I§2.5). */
export function sanitised(handle: string): string {
  const end = handle.indexOf("\r");
  return end < 0 ? handle : handle.slice(0, end);
}

/** A node or a namespace, as far as selectors need it. */
export type LabelledObject = Pick<Metadata, "name" | "labels">;

/** A pod, a virtual machine instance or a virtual machine, as far as addresses depend on it (I§1.9). */
export type OwnedObject = Pick<Metadata, "namespace" | "name" | "uid" | "labels" | "owners" | "isDeleting">;

export interface ClusterInformation {
  /** `undefined`: the field is missing or null. */
  readonly datastoreReady: boolean | undefined;
}
