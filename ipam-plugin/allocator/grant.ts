/**
 * Grants addresses of one block: the handle's count is raised, then the block is written (block-write.ts; I§3.4). A write that failed is
 * looked after, so that the handle counts no less than the block records.
 */
import { addressAt } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { AllocationAttribute, Block, BlockOwner } from "../../lib/datastore/resources.ts";
import { allocate, freeOrdinals, holderOf, isOwnedBy, isSameHolder, prefixOf, sequenceOf } from "./block.ts";
import { BlockPart, type Choice, type Choosing, type FailedWrite } from "./block-part.ts";
import { AT_LIMIT, type Hold, type Holder, hold, settle, undoHold } from "./handle.ts";
import type { Operation } from "./operation.ts";
import { AGAIN, type AssignedAddress } from "./types.ts";

/** Says on whose behalf addresses are taken, and what the block says of them. */
export interface GrantRequest extends Holder {
  readonly attribute: AllocationAttribute;
}

/** Tells what was granted. `at-limit`: the handle holds as many as it may. */
export type Granted = readonly AssignedAddress[] | typeof AT_LIMIT;

/** Says what is to be granted of one block. */
interface Wanted {
  readonly cidr: string;
  /** The most; fewer are granted when fewer are free. */
  readonly count: number;
  /** The ordinals to take, in order of preference; decided by the block that is about to be written. */
  readonly from: (block: Block) => readonly number[];
}

/** Assigns up to `count` addresses of a block; none when it has gone, is full or has another owner. */
export async function assignFromBlock(
  operation: Operation,
  /** `owner`: only while it has the block; absent when borrowing. `block`: as it was read a moment ago. */
  request: { readonly cidr: string; readonly count: number; readonly owner?: BlockOwner; readonly block?: Versioned<Block> },
  grant: GrantRequest,
): Promise<Granted> {
  const { cidr, count, owner } = request;
  const reservations = await operation.reservations();
  const from = (block: Block) => (owner === undefined || isOwnedBy(block, owner) ? freeOrdinals(block, reservations) : []);
  let read = request.block;
  return operation.retry<Granted>(`block ${cidr}`, () => {
    const stored = read;
    read = undefined;
    return operation.writer.write(new GrantPart(operation, { cidr, count, from }, grant), stored);
  });
}

/** Answers with what was granted: nothing when the block has gone, or has none of the ordinals wanted. */
export class GrantPart extends BlockPart<Granted> {
  readonly kind = "grant";
  readonly #operation: Operation;
  readonly #wanted: Wanted;
  readonly #grant: GrantRequest;
  #held: Hold | undefined;

  constructor(operation: Operation, wanted: Wanted, grant: GrantRequest) {
    super(operation, wanted.cidr);
    this.#operation = operation;
    this.#wanted = wanted;
    this.#grant = grant;
  }

  choose({ block, chosen, mayBeOld }: Choosing): Choice {
    const { from, count } = this.#wanted;
    const free = block === undefined ? [] : from(block).filter((ordinal) => !chosen.has(ordinal));
    this.ordinals = free.slice(0, count);
    if (this.ordinals.length > 0) return "write";
    // While the list of blocks may be old, nothing is concluded from one without room but to try the next.
    if (mayBeOld && !this.#operation.mayBeOld("affinities")) return "fresh";
    this.answer({ result: [] });
    return "nothing";
  }

  async prepare(): Promise<boolean> {
    const held = await hold(this.#operation, this.#grant, this.cidr, this.ordinals.length);
    if (held === AT_LIMIT) {
      this.answer({ result: AT_LIMIT });
      return false;
    }
    this.#held = held;
    return true;
  }

  apply(block: Block): Block {
    return allocate(block, this.ordinals, this.#grant.attribute);
  }

  done(written: Block): void {
    const prefix = prefixOf(written.cidr);
    const addresses = this.ordinals.map((ordinal) => ({
      prefix: { address: addressAt(prefix, ordinal), length: prefix.length },
      block: written.cidr,
      sequenceNumber: sequenceOf(written, ordinal),
      isReused: false,
    }));
    this.answer({ result: addresses });
  }

  /** Looks whether the addresses are there after all; else sets the count right. */
  async failed(write: FailedWrite): Promise<void> {
    const held = this.#held;
    if (held === undefined) return this.fail(write.error);
    this.#grant.known = undefined;
    try {
      const traces = tracesOf(held.handle, this.ordinals, write);
      if (traces === "ours") return this.done(write.changed);
      if (traces === "none") await undoHold(this.#operation, held);
      else await settle(this.#operation, held.handle, held.cidr);
      if (isDatastoreFailure(write.error, "conflict", "not-found")) this.answer(AGAIN);
      else this.fail(write.error);
    } catch (failure) {
      this.fail(failure);
    }
  }
}

/**
 * Finds what a write that failed has left of a grant. Two nodes that grant to one handle from the same state of a block write the same
 * numbers; only the owners tell them apart. `doubtful`: the handle has the addresses, under owners that are not ours (or not any more).
 */
function tracesOf(handle: string, ordinals: readonly number[], { now, changed }: FailedWrite): "ours" | "doubtful" | "none" {
  if (now === undefined) return "none";
  const isHeld = (ordinal: number): boolean =>
    holderOf(now, ordinal)?.handleId === handle && sequenceOf(now, ordinal) === sequenceOf(changed, ordinal);
  if (!ordinals.some(isHeld)) return "none";
  const isOurs = (ordinal: number): boolean => isHeld(ordinal) && isSameHolder(holderOf(now, ordinal), holderOf(changed, ordinal));
  return ordinals.every(isOurs) ? "ours" : "doubtful";
}
