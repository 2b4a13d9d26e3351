/** Defines what the allocator is asked, and what it answers: the words of its operations (I§3, I§4). */
import type { Address, Family, Prefix } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { Block, BlockOwner, Handle } from "../../lib/datastore/resources.ts";

/** Says what the addresses are for, which decides which pools qualify (I§2.7, I§3.2). */
export type PoolUse = "Workload" | "Tunnel" | "LoadBalancer";

/** Is a key-value set that goes with an address: `node`, `pod`, `namespace`, `timestamp` … (I§2.4). */
export type OwnerAttributes = Readonly<Record<string, string>>;

export interface Clock {
  /** Returns milliseconds since 1970. */
  nowMs(): number;
  /** Nanoseconds since 1970: first sequence number of a block. */
  nowNs(): bigint;
}

/** Is the outcome of one try: a result, or the request for another try. */
export type Try<T> = { readonly result: T } | typeof AGAIN;
export const AGAIN = "again";

export interface AutoAssignRequest {
  /** How many IPv4 addresses; 0 leaves the family out. */
  readonly count4: number;
  readonly count6: number;
  readonly handle: string;
  readonly attributes: OwnerAttributes;
  /** Who owns the blocks: `{ type: "host", name: node }`; its node's labels meet the node selectors. */
  readonly owner: BlockOwner;
  /** CIDRs or names of the pools asked for, in order of preference; empty means: the selectors decide. */
  readonly ipv4Pools?: readonly string[];
  readonly ipv6Pools?: readonly string[];
  readonly use: PoolUse;
  /** Namespace whose labels meet the namespace selectors; read only when a pool has one. */
  readonly namespace?: string;
  /** Affine blocks per host and family; the smaller of this and the configuration counts; absent or 0: no limit of the request's own. */
  readonly perRequestBlockLimit?: number;
  /** Allows so many addresses a family on this handle (KubeVirt, I§3.9); absent or 0: no limit. */
  readonly perHandleLimit?: number;
  /** Refuse, with HandleExistsError and before an address is taken, when there is such a handle already. */
  readonly mustBeNew?: boolean;
}

export interface AssignedAddress {
  /** The address with its block's prefix length; /32 and /128 when it was there before (`isReused`). */
  readonly prefix: Prefix;
  /** CIDR of its block. */
  readonly block: string;
  /** Identifies this very allocation: makes giving it back exact (I§4.2). */
  readonly sequenceNumber: bigint;
  /** The handle held it already; this call took nothing. */
  readonly isReused: boolean;
}

/** Says what is asked of one family. */
export interface FamilyRequest {
  readonly family: Family;
  readonly count: number;
  readonly owner: BlockOwner;
  readonly requestedPools: readonly string[];
  readonly use: PoolUse;
  /** 0 when it has no blocks of its own. */
  readonly blockLimit: number;
  /** Lists the owner's blocks that are not full, where the store finds them without looking at the others. */
  readonly withRoom: (() => Promise<readonly Versioned<Block>[]>) | undefined;
}

export interface FamilyAssignment {
  readonly family: Family;
  readonly requested: number;
  /** Fewer than requested is not an error by itself: `messages` says why (I§3.4). */
  readonly addresses: readonly AssignedAddress[];
  readonly messages: readonly string[];
  /** What stopped the family; addresses may be there all the same. */
  readonly error?: Error;
}

export interface AutoAssignResult {
  /** `undefined`: the family was not asked for, or an error of IPv4 kept IPv6 from starting. */
  readonly ipv4?: FamilyAssignment;
  readonly ipv6?: FamilyAssignment;
}

export interface AssignIpRequest extends Pick<AutoAssignRequest, "handle" | "attributes" | "owner" | "perHandleLimit" | "mustBeNew"> {
  readonly address: Address;
  /** Absent when it does not matter which pool (I§3.11). */
  readonly use?: PoolUse;
}

export interface ReleaseOptions {
  readonly address: Address;
  /** CIDR of its block; absent: by the block size of its pool now, or by looking through all blocks. */
  readonly block?: string;
  /** Demands that this handle holds it. */
  readonly handle?: string;
  /** Demands this allocation of it, not a later one. */
  readonly sequenceNumber?: bigint;
  /** Demands that its owners are these, so that no other pod has taken it over (KubeVirt). */
  readonly owners?: OwnerPreconditions;
  /** The address was never in use: it is free at once, without a cooldown. */
  readonly neverUsed?: boolean;
}

export type GiveBackOptions = Pick<ReleaseOptions, "owners" | "neverUsed">;

export interface HandleReleaseOptions {
  /** Limits the release to allocations with these numbers; with none of them, only counts that the blocks do not bear out go. */
  readonly sequenceNumbers?: ReadonlySet<bigint>;
  /** The handle as it was listed, which saves reading it. */
  readonly listed?: Versioned<Handle>;
  /** Limits the release to addresses whose owners are these; the others stay. */
  readonly owners?: OwnerPreconditions;
  /** Limits the release to addresses all of whose owners satisfy this; the others stay. Gets no attributes for an address without owner. */
  readonly isTheirs?: (owner: OwnerAttributes) => boolean;
  /** Leaves it to `releaseDeselected` to find out whether the node is still selected for a block that becomes empty (I§4.1.4). */
  readonly keepDeselected?: boolean;
}

export interface ReleaseIpsResult {
  /** Were free, in cooldown, or in no block: releasing twice is harmless. */
  readonly unallocated: readonly Address[];
  /** Options that were carried out or found nothing to do. */
  readonly done: readonly ReleaseOptions[];
  /** The first failure, of a block whose options are not in `done`. */
  readonly error?: Error;
}

export interface ReleaseByHandleResult {
  /** false: no handle of that name; nothing was held. */
  readonly found: boolean;
  readonly released: readonly Address[];
}

export interface HeldAddress {
  readonly address: Address;
  readonly block: string;
  readonly handle: string | undefined;
  readonly activeOwner: OwnerAttributes;
  readonly alternateOwner: OwnerAttributes;
  readonly sequenceNumber: bigint;
  /** The block as it was read. */
  readonly stored: Versioned<Block>;
}

/** Sets a condition on one owner set: what it must hold now, exactly; an empty object means: must be empty. */
export interface OwnerPreconditions {
  readonly active?: OwnerAttributes;
  readonly alternate?: OwnerAttributes;
}

/** Gives new owner sets of an address (I§8.4 SetOwnerAttributes): absent leaves it, null clears it. */
export interface OwnerUpdates {
  readonly active?: OwnerAttributes | null;
  readonly alternate?: OwnerAttributes | null;
}

/** Counts of addresses. `inUse` counts cooldown and host-reserved ordinals; `reserved` and `inUse` may overlap. */
export interface Utilisation {
  readonly cidr: string;
  readonly capacity: bigint;
  readonly inUse: bigint;
  readonly reserved: bigint;
  /** Counts addresses neither in use nor reserved. */
  readonly available: bigint;
}

export interface BlockUtilisation extends Utilisation {
  readonly owner: BlockOwner | undefined;
  /** Held by addresses of other nodes than the owner. */
  readonly borrowed: number;
}

export interface PoolUtilisation extends Utilisation {
  readonly name: string;
  readonly blocks: readonly BlockUtilisation[];
  /** What is wrong with each block of the pool that cannot be decoded; such a block is not among `blocks`. */
  readonly unreadable: readonly string[];
}

/** Says that a handle of this name exists already; nothing was taken. */
export class HandleExistsError extends Error {
  constructor(handle: string) {
    super(`handle ${handle} exists already`);
    this.name = "HandleExistsError";
  }
}
