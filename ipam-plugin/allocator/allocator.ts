/**
 * The allocator: what the IPAM plugin, `tortiectl ipam` and the tests ask of it, and nothing about how (I§3, I§4).
 * One implementation on the datastore port; it never asks which driver it has.
 *
 * Every call is safe while others of whatever process are under way: the only grants are compare-and-swaps of blocks
 * (design, invariant 2). Failures of the store come out as the DatastoreError they are, refusals as TortieError.
 */
import type { Address, Family, Prefix } from "../../lib/addresses/address.ts";
import type { BlockOwner, Datastore, Versioned } from "../../lib/datastore/datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import type { View, ViewOf } from "./context.ts";

/** What the addresses are for: decides which pools qualify (I§2.7, I§3.2). */
export type PoolUse = "Workload" | "Tunnel" | "LoadBalancer";

export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number;
  /** Nanoseconds since 1970: first sequence number of a block. */
  nowNs(): bigint;
}

export interface AllocatorServices {
  readonly datastore: Datastore;
  readonly clock: Clock;
  /** In [0, 1): jitter of the back-off, and the start in pools of single-address blocks. Default Math.random. */
  readonly random?: () => number;
  /** What does not stop an operation, and a person should know. Default: nowhere. */
  readonly log?: (message: string) => void;
  /** Waits between tries. Default: a timer that an abort ends early. */
  readonly sleep?: (milliseconds: number, signal: AbortSignal | undefined) => Promise<void>;
}

/** A key-value set that goes with an address: `node`, `pod`, `namespace`, `timestamp` … (I§2.4). */
export type OwnerAttributes = Readonly<Record<string, string>>;

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
  /** What the caller has read before, made for the same owner and namespace. */
  readonly view?: View;
  /** Affine blocks per host and family; the smaller of this and the configuration counts; absent or 0: no limit of the request's own. */
  readonly perRequestBlockLimit?: number;
  /** At most so many addresses a family on this handle (KubeVirt, I§3.9); absent or 0: no limit. */
  readonly perHandleLimit?: number;
  /** Refuse, with HandleExistsError and before an address is taken, when there is such a handle already. */
  readonly mustBeNew?: boolean;
  /** Ordinals kept from use in new IPv4 blocks, Windows only (I§3.10). */
  readonly reserve?: HostReserve;
  readonly signal?: AbortSignal;
}

/** Windows: so many ordinals at the start and end of a new block are the host's (I§3.10). */
export interface HostReserve {
  readonly start: number;
  readonly end: number;
  readonly handle: string;
  readonly note: string;
}

export interface AssignedAddress {
  /** The address with its block's prefix length; /32 and /128 when it was there before (`isReused`). */
  readonly prefix: Prefix;
  /** CIDR of its block. */
  readonly block: string;
  /** Of this very allocation: makes giving it back exact (I§4.2). */
  readonly sequenceNumber: bigint;
  /** The handle held it already; this call took nothing. */
  readonly isReused: boolean;
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

export interface AssignIpRequest {
  readonly address: Address;
  readonly handle: string;
  readonly attributes: OwnerAttributes;
  /** Owner of the block when it must be made. */
  readonly owner: BlockOwner;
  /** Absent when it does not matter which pool (I§3.11). */
  readonly use?: PoolUse;
  readonly perHandleLimit?: number;
  /** As of an AutoAssignRequest. */
  readonly mustBeNew?: boolean;
  readonly view?: View;
  readonly signal?: AbortSignal;
}

export interface ReleaseOptions {
  readonly address: Address;
  /** CIDR of its block; absent: found by the pools, or by looking through all blocks. */
  readonly block?: string;
  /** Only if this handle holds it. */
  readonly handle?: string;
  /** Only this allocation of it, not a later one. */
  readonly sequenceNumber?: bigint;
  /** Only while its owners are these: nobody has taken it over (KubeVirt). */
  readonly owners?: OwnerPreconditions;
  /** Nobody has ever seen the address in use: it is free at once, without a cooldown. */
  readonly neverUsed?: boolean;
}

export interface GiveBackOptions extends Pick<ReleaseOptions, "owners" | "neverUsed"> {
  /** What the caller has read before. */
  readonly view?: View;
}

export interface HandleReleaseOptions {
  /** Only allocations with this number. */
  readonly sequenceNumber?: bigint;
  /** Only addresses whose owners are these; the others stay. */
  readonly owners?: OwnerPreconditions;
  /** Only addresses all of whose owners satisfy this; the others stay. An address without owner is asked about with no attributes. */
  readonly isTheirs?: (owner: OwnerAttributes) => boolean;
  /** Whether the node is still selected for a block that becomes empty is left to `releaseDeselected` to find out (I§4.1.4). */
  readonly keepDeselected?: boolean;
  /** What the caller has read before. */
  readonly view?: View;
  readonly signal?: AbortSignal;
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

export interface ReleaseAffinityOptions {
  /** Refuse, with an error, a block that still has addresses. */
  readonly mustBeEmpty: boolean;
  readonly signal?: AbortSignal;
}

export interface ClaimAffinityResult {
  readonly claimed: readonly string[];
  /** Blocks that others own. */
  readonly failed: readonly string[];
}

export interface EnsureBlockRequest {
  readonly owner: BlockOwner;
  readonly ipv4: boolean;
  readonly ipv6: boolean;
  readonly ipv4Pools?: readonly string[];
  readonly ipv6Pools?: readonly string[];
  readonly use: PoolUse;
  readonly namespace?: string;
  readonly reserve?: HostReserve;
  readonly signal?: AbortSignal;
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

/** Condition on one owner set: what it must hold now, exactly; an empty object means: must be empty. */
export interface OwnerPreconditions {
  readonly active?: OwnerAttributes;
  readonly alternate?: OwnerAttributes;
}

/** New owner sets of an address (I§8.4 SetOwnerAttributes): absent leaves it, null clears it. */
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
  /** Neither in use nor reserved. */
  readonly available: bigint;
}

export interface BlockUtilisation extends Utilisation {
  readonly owner: BlockOwner | undefined;
  /** Held by addresses of other nodes than the owner. */
  readonly borrowed: number;
  readonly coolingDown: number;
}

export interface PoolUtilisation extends Utilisation {
  readonly name: string;
  readonly blocks: readonly BlockUtilisation[];
}

export interface Allocator {
  /** Nothing read yet: for an operation that consists of several calls. */
  view(of?: ViewOf): View;
  /**
   * CIDRs of pools given as CIDR or by name, for one family (I§3.2.1).
   * @throws TortieError `pool-unknown`, `pool-family`
   */
  resolvePools(entries: readonly string[], family: Family, view?: View): Promise<readonly string[]>;
  /** Never rejects: what stopped a family is in its `error`, so that the caller can give back the rest. */
  autoAssign(request: AutoAssignRequest): Promise<AutoAssignResult>;
  /**
   * Releases exactly what an `autoAssign` took, nothing that its handle held before, and with `owners` nothing that was taken over.
   * Never rejects because an address is gone.
   */
  giveBack(result: AutoAssignResult, handle: string, options?: GiveBackOptions): Promise<void>;
  /** @throws TortieError `address-outside-pools`, `address-taken`, `pool-use`, `handle-limit`, `affinity-strict`; HandleExistsError */
  assignIp(request: AssignIpRequest): Promise<AssignedAddress>;
  releaseByHandle(handle: string, options?: HandleReleaseOptions): Promise<ReleaseByHandleResult>;
  releaseIps(options: readonly ReleaseOptions[], signal?: AbortSignal): Promise<ReleaseIpsResult>;
  /** One block of one owner. @throws TortieError `block-not-empty`, `block-claimed` */
  releaseAffinity(cidr: string, owner: BlockOwner, options: ReleaseAffinityOptions): Promise<void>;
  /** Every block of an owner, both families; goes on after failures and throws the last. */
  releaseHostAffinities(owner: BlockOwner, options: ReleaseAffinityOptions): Promise<void>;
  /** Every block inside a pool's CIDR, whoever owns it, empty or not. */
  releasePoolAffinities(cidr: string, signal?: AbortSignal): Promise<void>;
  /** The owner's blocks that are empty and in a pool whose node selector does not select it any more, both families (I§4.1.4). */
  releaseDeselected(owner: BlockOwner, signal?: AbortSignal): Promise<void>;
  /** Every block of a CIDR inside one enabled pool. @throws TortieError `claim-too-small`, `address-outside-pools` */
  claimAffinity(cidr: string, owner: BlockOwner, signal?: AbortSignal): Promise<ClaimAffinityResult>;
  /** Makes sure the owner has a block with room in each family asked for; returns their CIDRs. */
  ensureBlock(request: EnsureBlockRequest): Promise<readonly string[]>;
  /** `undefined`: no such handle. Addresses in cooldown belong to nobody. */
  addressesByHandle(handle: string): Promise<readonly HeldAddress[] | undefined>;
  /** `undefined`: free, cooling down, or in no block. @throws TortieError `address-outside-pools` */
  attributesOf(address: Address): Promise<HeldAddress | undefined>;
  utilisation(): Promise<readonly PoolUtilisation[]>;
  /**
   * @param where an address as it was looked up saves looking for its block
   * @returns the address as it is now
   * @throws TortieError `owner-conflict`, `address-outside-pools`, `address-not-assigned`
   */
  setOwnerAttributes(
    where: Address | HeldAddress,
    handle: string,
    updates: OwnerUpdates,
    preconditions?: OwnerPreconditions,
    signal?: AbortSignal,
  ): Promise<HeldAddress>;
  /** Gives the owner's affinities the look-up labels that older writers left out (I§1.8). Returns how many were mended. */
  upgradeHost(owner: BlockOwner, signal?: AbortSignal): Promise<number>;
}

export type { View, ViewOf } from "./context.ts";
export { createAllocator } from "./create-allocator.ts";
export { HandleExistsError } from "./handle-exists.ts";
