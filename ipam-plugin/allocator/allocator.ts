/**
 * The allocator: what the IPAM plugin, `tortiectl ipam` and the tests ask of it, and nothing about how (I§3, I§4).
 * One implementation on the datastore port; it never asks which driver it has.
 *
 * Every call is safe while other calls of any process are under way: the only grants are compare-and-swaps of blocks
 * (design, invariant 2). Failures of the store come out as the DatastoreError they are, refusals as TortieError.
 */
import type { Address } from "../../lib/addresses/address.ts";
import type { BlockOwner } from "../../lib/datastore/datastore.ts";
import { assignIp, autoAssign, giveBack } from "./assign.ts";
import { upgradeHost } from "./claim-block.ts";
import { addressesByHandle, attributesOf, setOwnerAttributes } from "./lookup.ts";
import { type AllocatorServices, Operation, type OperationOptions } from "./operation.ts";
import { releaseAffinity, releaseDeselected } from "./release-affinity.ts";
import { releaseByHandle } from "./release-by-handle.ts";
import { releaseIps } from "./release-ips.ts";
import type {
  AssignedAddress,
  AssignIpRequest,
  AutoAssignRequest,
  AutoAssignResult,
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

/** The operation that a call is part of, or the signal of an operation of its own. */
export type Within = Operation | Pick<OperationOptions, "signal">;

export class Allocator {
  readonly #services: AllocatorServices;

  constructor(services: AllocatorServices) {
    this.#services = services;
  }

  /** A new operation, which has read nothing yet, or the one it is given. A caller begins one itself when several calls share it. */
  begin(within: Operation | OperationOptions = {}): Operation {
    return within instanceof Operation ? within : new Operation(this.#services, within);
  }

  /**
   * Never rejects: what stopped a family is in its `error`, so that the caller can give back the rest.
   * Always an operation of its own, because it reads the labels of the request's owner and namespace.
   */
  autoAssign(
    request: AutoAssignRequest,
    reading: Pick<OperationOptions, "mustExist" | "mayBeOld" | "signal"> = {},
  ): Promise<AutoAssignResult> {
    const { owner, namespace } = request;
    return autoAssign(this.begin({ ...reading, owner, namespace }), request);
  }

  /**
   * Releases exactly what an `autoAssign` took, nothing that its handle held before, and with `owners` nothing that was taken over.
   * Never rejects because an address is gone. Takes no signal: giving back must not stop half-way.
   */
  giveBack(result: AutoAssignResult, handle: string, options: GiveBackOptions = {}): Promise<void> {
    return giveBack(this.begin(), result, handle, options);
  }

  /** @throws TortieError `address-outside-pools`, `address-taken`, `pool-use`, `handle-limit`, `affinity-strict`; HandleExistsError */
  assignIp(request: AssignIpRequest, within?: Within): Promise<AssignedAddress> {
    return assignIp(this.begin(within), request);
  }

  releaseByHandle(handle: string, options: HandleReleaseOptions = {}, within?: Within): Promise<ReleaseByHandleResult> {
    return releaseByHandle(this.begin(within), { ...options, handle });
  }

  releaseIps(options: readonly ReleaseOptions[], within?: Within): Promise<ReleaseIpsResult> {
    return releaseIps(this.begin(within), options);
  }

  /** One block of one owner. @throws TortieError `block-not-empty`, `block-claimed` */
  async releaseAffinity(cidr: string, owner: BlockOwner, { mustBeEmpty }: ReleaseAffinityOptions, within?: Within): Promise<void> {
    await releaseAffinity(this.begin(within), { owner, cidr, mustBeEmpty });
  }

  /** The owner's blocks that are empty and in a pool whose node selector does not select it any more, both families (I§4.1.4). */
  releaseDeselected(owner: BlockOwner, within?: Within): Promise<void> {
    return releaseDeselected(this.begin(within), owner);
  }

  /** `undefined`: no such handle. Addresses in cooldown have no holder. */
  addressesByHandle(handle: string): Promise<readonly HeldAddress[] | undefined> {
    return addressesByHandle(this.begin(), handle);
  }

  /** `undefined`: free, cooling down, or in no block. @throws TortieError `address-outside-pools` */
  attributesOf(address: Address): Promise<HeldAddress | undefined> {
    return attributesOf(this.begin(), address);
  }

  utilisation(): Promise<readonly PoolUtilisation[]> {
    return utilisation(this.begin());
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
    within?: Within,
  ): Promise<HeldAddress> {
    return setOwnerAttributes(this.begin(within), { where, handle, updates, preconditions });
  }

  /** Gives the owner's affinities the look-up labels that older writers left out (I§1.8). Returns how many were mended. */
  upgradeHost(owner: BlockOwner, within?: Within): Promise<number> {
    return upgradeHost(this.begin(within), owner);
  }
}

export type { AllocatorServices, Clock, Operation } from "./operation.ts";
export * from "./types.ts";
