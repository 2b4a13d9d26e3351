/** What one operation has to do with a write of a block that it shares with others: an address to be granted, or some to be released. */
import { allocate, freeOrdinals, isOwnedBy } from "../../ipam-plugin/allocator/block.ts";
import { afterFailure, type BlockRequest, type Grant, type Granted, grantedIn } from "../../ipam-plugin/allocator/grant.ts";
import { AT_LIMIT, type Hold, hold } from "../../ipam-plugin/allocator/handle.ts";
import { AGAIN, type Operation, type Try } from "../../ipam-plugin/allocator/operation.ts";
import { type BlockRelease, type ChosenRelease, type ReleasedIn, withoutOrdinals } from "../../ipam-plugin/allocator/release-by-handle.ts";
import type { Reservations } from "../../ipam-plugin/allocator/reservations.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block } from "../../lib/datastore/resources.ts";

/** `write`: it takes part. `nothing`: it has its answer without a write. `fresh`: the answer must not rest on a block that may be old. */
export type Choice = "write" | "nothing" | "fresh";

export interface FailedWrite {
  readonly error: unknown;
  /** The block as it is now, and as it would be, had it been written. */
  readonly now: Block | undefined;
  readonly changed: Block;
}

/** Steps of a write, in their order: choose, prepare, apply, then done or failed. */
export interface Part {
  readonly operation: Operation;
  readonly kind: "grant" | "release";
  /**
   * @param stored as it was read; absent: there is no block
   * @param block the same with cooled ordinals free
   * @param chosen ordinals that other parts of the write take
   */
  choose(stored: Block | undefined, block: Block | undefined, chosen: Set<number>, mayBeOld: boolean): Choice;
  /** @returns false: it takes no part after all, and has its answer */
  prepare(): Promise<boolean>;
  apply(block: Block, nowMs: number): Block;
  done(written: Block): void;
  failed(write: FailedWrite): Promise<void>;
  /** Before anything was prepared. */
  fail(error: unknown): void;
}

abstract class Answered<T> {
  readonly outcome: Promise<Try<T>>;
  readonly operation: Operation;
  protected readonly answer: (outcome: Try<T>) => void;
  readonly fail: (error: unknown) => void;

  constructor(operation: Operation) {
    const { promise, resolve, reject } = Promise.withResolvers<Try<T>>();
    this.operation = operation;
    this.outcome = promise;
    this.answer = resolve;
    this.fail = reject;
  }
}

export class PartOfGrant extends Answered<Granted> implements Part {
  readonly kind = "grant";
  readonly #request: BlockRequest;
  readonly #grant: Grant;
  readonly #reservations: Reservations;
  #ordinals: readonly number[] = [];
  #held: Hold | undefined;

  constructor(operation: Operation, request: BlockRequest, grant: Grant, reservations: Reservations) {
    super(operation);
    this.#request = request;
    this.#grant = grant;
    this.#reservations = reservations;
  }

  choose(_stored: Block | undefined, block: Block | undefined, chosen: Set<number>, mayBeOld: boolean): Choice {
    const { count, owner } = this.#request;
    const isUsable = block !== undefined && (owner === undefined || isOwnedBy(block, owner));
    const free = isUsable ? freeOrdinals(block, this.#reservations).filter((ordinal) => !chosen.has(ordinal)) : [];
    this.#ordinals = free.slice(0, count);
    for (const ordinal of this.#ordinals) chosen.add(ordinal);
    if (this.#ordinals.length > 0) return "write";
    // While the list of blocks may be old, nothing is concluded from one without room but to try the next.
    if (mayBeOld && !this.operation.mayBeOld("affinities")) return "fresh";
    this.answer({ result: [] });
    return "nothing";
  }

  async prepare(): Promise<boolean> {
    const held = await hold(this.operation, this.#grant, this.#request.cidr, this.#ordinals.length);
    if (held === AT_LIMIT) {
      this.answer({ result: AT_LIMIT });
      return false;
    }
    this.#held = held;
    return true;
  }

  apply(block: Block): Block {
    return allocate(block, this.#ordinals, this.#grant.attribute);
  }

  done(written: Block): void {
    this.answer({ result: grantedIn(written, this.#ordinals) });
  }

  async failed({ error, now, changed }: FailedWrite): Promise<void> {
    if (this.#held === undefined) return this.fail(error);
    const grant = this.#grant;
    try {
      const outcome = await afterFailure(this.operation, { now, changed, ordinals: this.#ordinals, held: this.#held, grant, error });
      if (outcome === AGAIN) this.answer(AGAIN);
      else this.done(changed);
    } catch (failure) {
      this.fail(failure);
    }
  }
}

export class PartOfRelease extends Answered<ReleasedIn> implements Part {
  readonly kind = "release";
  readonly #release: BlockRelease;
  #read: Block | undefined;
  #chosen: ChosenRelease = { ordinals: [] };

  constructor(operation: Operation, release: BlockRelease) {
    super(operation);
    this.#release = release;
  }

  choose(stored: Block | undefined, _block: Block | undefined, chosen: Set<number>, mayBeOld: boolean): Choice {
    if (stored === undefined) {
      if (mayBeOld) return "fresh";
      this.answer({ result: { ordinals: [] } });
      return "nothing";
    }
    this.#read = stored;
    try {
      this.#chosen = this.#release.choose(stored);
    } catch (error) {
      if (mayBeOld) return "fresh";
      this.fail(error);
      return "nothing";
    }
    const { ordinals, mustWrite = false } = this.#chosen;
    // Two that release the same: the second finds it done.
    if (ordinals.some((ordinal) => chosen.has(ordinal))) {
      this.answer(AGAIN);
      return "nothing";
    }
    for (const ordinal of ordinals) chosen.add(ordinal);
    if (ordinals.length > 0 || mustWrite) return "write";
    if (mayBeOld) return "fresh";
    this.answer({ result: { read: stored, ordinals } });
    return "nothing";
  }

  async prepare(): Promise<boolean> {
    if (this.#read !== undefined && this.#chosen.ordinals.length > 0) await this.#release.prepare?.(this.#read, this.#chosen.ordinals);
    return true;
  }

  apply(block: Block, nowMs: number): Block {
    return this.#chosen.ordinals.length === 0 ? block : withoutOrdinals(block, this.#chosen, nowMs);
  }

  done(written: Block): void {
    const { ordinals } = this.#chosen;
    const read = this.#read;
    const now = ordinals.length > 0 ? { now: written } : {};
    this.answer({ result: read === undefined ? { ordinals } : { read, ordinals, ...now } });
  }

  async failed({ error }: FailedWrite): Promise<void> {
    if (isDatastoreFailure(error, "conflict", "not-found")) this.answer(AGAIN);
    else this.fail(error);
  }
}
