/**
 * The allocator: what the IPAM plugin, `tortiectl ipam` and the tests ask of it, and nothing about how (I§3, I§4).
 * One implementation on the datastore port; it never asks which driver it has.
 *
 * Every call is safe while others of whatever process are under way: the only grants are compare-and-swaps of blocks
 * (design, invariant 2). Failures of the store come out as the DatastoreError they are, refusals as TortieError.
 */
import type { Address, Family } from "../../lib/addresses/address.ts";
import type { BlockOwner } from "../../lib/datastore/datastore.ts";
import { claimAffinity, releaseHostAffinities, releasePoolAffinities, upgradeHost } from "./affinities.ts";
import { assignIp } from "./assign-address.ts";
import { autoAssign, ensureBlock, giveBack } from "./auto-assign.ts";
import { addressesByHandle, attributesOf } from "./lookup.ts";
import { type AllocatorServices, type Context, sleep, View, type ViewOf } from "./operation.ts";
import { setOwnerAttributes } from "./owners.ts";
import { resolvePools } from "./pools.ts";
import { releaseIps } from "./release-addresses.ts";
import { releaseAffinity, releaseAllDeselected } from "./release-affinity.ts";
import { releaseByHandle } from "./release-handle.ts";
import type {
  AssignedAddress,
  AssignIpRequest,
  AutoAssignRequest,
  AutoAssignResult,
  ClaimAffinityResult,
  EnsureBlockRequest,
  GiveBackOptions,
  HandleReleaseOptions,
  HeldAddress,
  OwnerPreconditions,
  OwnerUpdates,
  PoolUtilisation,
  ReleaseAffinityOptions,
  ReleaseByHandleResult,
  ReleaseIpsResult,
  ReleaseOptions,
} from "./types.ts";
import { utilisation } from "./utilisation.ts";

export class Allocator {
  readonly #context: Context;

  constructor(services: AllocatorServices) {
    this.#context = { random: Math.random, sleep, log: () => {}, ...services };
  }

  /** Nothing read yet: for an operation that consists of several calls. */
  view(of?: ViewOf): View {
    return new View(this.#context.datastore, of);
  }

  /**
   * CIDRs of pools given as CIDR or by name, for one family (I§3.2.1).
   * @throws TortieError `pool-unknown`, `pool-family`
   */
  resolvePools(entries: readonly string[], family: Family, view = this.view()): Promise<readonly string[]> {
    return resolvePools(view, entries, family);
  }

  /** Never rejects: what stopped a family is in its `error`, so that the caller can give back the rest. */
  autoAssign(request: AutoAssignRequest): Promise<AutoAssignResult> {
    return autoAssign(this.#context, request);
  }

  /**
   * Releases exactly what an `autoAssign` took, nothing that its handle held before, and with `owners` nothing that was taken over.
   * Never rejects because an address is gone.
   */
  giveBack(result: AutoAssignResult, handle: string, options: GiveBackOptions = {}): Promise<void> {
    return giveBack(this.#context, options.view ?? this.view(), result, handle, options);
  }

  /** @throws TortieError `address-outside-pools`, `address-taken`, `pool-use`, `handle-limit`, `affinity-strict`; HandleExistsError */
  assignIp(request: AssignIpRequest): Promise<AssignedAddress> {
    return assignIp(this.#context, request.view ?? this.view(), request);
  }

  releaseByHandle(handle: string, options: HandleReleaseOptions = {}): Promise<ReleaseByHandleResult> {
    return releaseByHandle(this.#context, options.view ?? this.view(), { ...options, handle });
  }

  releaseIps(options: readonly ReleaseOptions[], signal?: AbortSignal): Promise<ReleaseIpsResult> {
    return releaseIps(this.#context, this.view(), options, signal);
  }

  /** One block of one owner. @throws TortieError `block-not-empty`, `block-claimed` */
  async releaseAffinity(cidr: string, owner: BlockOwner, { mustBeEmpty, signal }: ReleaseAffinityOptions): Promise<void> {
    await releaseAffinity(this.#context, this.view(), { owner, cidr, mustBeEmpty }, signal);
  }

  /** Every block of an owner, both families; goes on after failures and throws the last. */
  releaseHostAffinities(owner: BlockOwner, options: ReleaseAffinityOptions): Promise<void> {
    return releaseHostAffinities(this.#context, this.view(), owner, options);
  }

  /** Every block inside a pool's CIDR, whoever owns it, empty or not. */
  releasePoolAffinities(cidr: string, signal?: AbortSignal): Promise<void> {
    return releasePoolAffinities(this.#context, this.view(), cidr, signal);
  }

  /** The owner's blocks that are empty and in a pool whose node selector does not select it any more, both families (I§4.1.4). */
  releaseDeselected(owner: BlockOwner, signal?: AbortSignal): Promise<void> {
    return releaseAllDeselected(this.#context, this.view(), owner, signal);
  }

  /** Every block of a CIDR inside one enabled pool. @throws TortieError `claim-too-small`, `address-outside-pools` */
  claimAffinity(cidr: string, owner: BlockOwner, signal?: AbortSignal): Promise<ClaimAffinityResult> {
    return claimAffinity(this.#context, this.view(), cidr, owner, signal);
  }

  /** Makes sure the owner has a block with room in each family asked for; returns their CIDRs. */
  ensureBlock(request: EnsureBlockRequest): Promise<readonly string[]> {
    return ensureBlock(this.#context, request);
  }

  /** `undefined`: no such handle. Addresses in cooldown belong to nobody. */
  addressesByHandle(handle: string): Promise<readonly HeldAddress[] | undefined> {
    return addressesByHandle(this.#context, handle);
  }

  /** `undefined`: free, cooling down, or in no block. @throws TortieError `address-outside-pools` */
  attributesOf(address: Address): Promise<HeldAddress | undefined> {
    return attributesOf(this.#context, this.view(), address);
  }

  utilisation(): Promise<readonly PoolUtilisation[]> {
    return utilisation(this.view());
  }

  /**
   * @param where an address as it was looked up saves looking for its block
   * @returns the address as it is now
   * @throws TortieError `owner-conflict`, `address-outside-pools`, `address-not-assigned`
   */
  setOwnerAttributes(
    where: Address | HeldAddress,
    handle: string,
    updates: OwnerUpdates,
    preconditions: OwnerPreconditions = {},
    signal?: AbortSignal,
  ): Promise<HeldAddress> {
    return setOwnerAttributes(this.#context, this.view(), { where, handle, updates, preconditions }, signal);
  }

  /** Gives the owner's affinities the look-up labels that older writers left out (I§1.8). Returns how many were mended. */
  upgradeHost(owner: BlockOwner, signal?: AbortSignal): Promise<number> {
    return upgradeHost(this.#context, owner, signal);
  }
}

export type { AllocatorServices, Clock, View, ViewOf } from "./operation.ts";
export * from "./types.ts";
