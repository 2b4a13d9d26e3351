/**
 * Releases everything a handle holds (I§4.1), as CNI DEL does, and so cleans up after operations that died.
 *
 * The handle is read first, then each of its blocks is written, then the handle is written at the revision that was read. So
 * whatever the handle counted has been looked at: addresses are freed, counts without addresses are gone, and grants that were
 * under way fail on the block (handle.ts). When the handle has changed meanwhile, all of it is done again.
 */
import { type Address, addressAt } from "../../lib/addresses/address.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { releaseIfDeselected } from "./affinity.ts";
import { holderOf, isEmpty, ordinalsOf, prefixOf, release, sequenceOf } from "./block.ts";
import { BlockPart, type Choice, type Choosing, type FailedWrite } from "./block-part.ts";
import { countedIn, putCounts } from "./handle.ts";
import { hasOwners, unexpectedOwner } from "./lookup.ts";
import type { Operation } from "./operation.ts";
import { AGAIN, type HandleReleaseOptions, type ReleaseByHandleResult } from "./types.ts";

interface HandleRelease extends HandleReleaseOptions {
  readonly handle: string;
}

/** Tries every block, whatever another one does; the first failure is thrown at the end. */
export async function releaseByHandle(operation: Operation, request: HandleRelease): Promise<ReleaseByHandleResult> {
  const { handle } = request;
  const released: Address[] = [];
  const emptied = new Map<string, Block>();
  let found = false;
  let { listed } = request;
  let mayBeOld = listed !== undefined || operation.mayBeOld("handles");
  await operation.retry(`handle ${handle}`, async () => {
    const isOld = mayBeOld;
    const stored = listed ?? (await operation.datastore.handles.get(handle, { mayBeOld: isOld }));
    mayBeOld = false;
    listed = undefined;
    if (stored === undefined) return { result: undefined };
    found = true;
    const counts: Record<string, number> = {};
    const outcomes = await Promise.allSettled(
      Object.entries(stored.value.blocks).map(async ([cidr, count]) => {
        const outcome = await releaseInBlock(operation, request, cidr, count);
        counts[cidr] = outcome.left;
        released.push(...outcome.released);
        if (outcome.emptied !== undefined) emptied.set(cidr, outcome.emptied);
      }),
    );
    const isDone = await putCounts(operation.datastore.handles, handle, stored, counts);
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    // Nothing was compared with what is stored: a handle from memory may lack a block.
    const isUnproven = isOld && Object.entries(counts).every(([cidr, count]) => stored.value.blocks[cidr] === count);
    if (isUnproven) return AGAIN;
    return isDone ? { result: undefined } : AGAIN;
  });
  for (const [cidr, { affinity }] of emptied) {
    if (affinity !== undefined && request.keepDeselected !== true) await releaseIfDeselected(operation, affinity, [cidr]);
  }
  return { found, released };
}

interface BlockOutcome {
  readonly released: readonly Address[];
  /** How many addresses the handle's object has to count in the block now. */
  readonly left: number;
  /** The block, when it stands empty now and has an owner. */
  readonly emptied?: Block;
}

async function releaseInBlock(operation: Operation, request: HandleRelease, cidr: string, counted: number): Promise<BlockOutcome> {
  const leftIn = (block: Block, wanted: number) => countedIn(block, request.handle, operation.datastore.traits) - wanted;
  const { read, ordinals, now } = await releaseFrom(operation, cidr, {
    choose: (block) => {
      const wanted = wantedOf(block, request);
      // The handle counts what is not there: its writer died, or is about to write. Writing the block stops the latter.
      return { ordinals: wanted, mustWrite: leftIn(block, wanted.length) !== counted };
    },
  });
  if (read === undefined) return { released: [], left: 0 };
  const left = leftIn(read, ordinals.length);
  if (ordinals.length === 0) return { released: [], left };
  const prefix = prefixOf(cidr);
  const released = ordinals.map((ordinal) => addressAt(prefix, ordinal));
  const emptied = now?.affinity !== undefined && isEmpty(now) ? { emptied: now } : {};
  return { released, left, ...emptied };
}

function wantedOf(block: Block, { handle, sequenceNumbers, owners, isTheirs }: HandleRelease): readonly number[] {
  return ordinalsOf(block, handle).filter(
    (ordinal) =>
      sequenceNumbers?.has(sequenceOf(block, ordinal)) !== false &&
      unexpectedOwner(holderOf(block, ordinal), owners) === undefined &&
      (isTheirs === undefined || hasOwners(holderOf(block, ordinal), isTheirs)),
  );
}

/** Says what is to be released in one block. */
interface BlockRelease {
  /** Decides by the block as it was read; may throw a refusal. */
  choose(block: Block): ChosenRelease;
  /** Runs after the block was read and before it is written. */
  prepare?(block: Block, ordinals: readonly number[]): Promise<void>;
}

interface ChosenRelease {
  readonly ordinals: readonly number[];
  /** Sequence number that they get while they cool down. */
  readonly newSequence?: bigint;
  /** The addresses were never in use: they need no cooldown. */
  readonly neverUsed?: boolean;
  /** Even if there is nothing to release. */
  readonly mustWrite?: boolean;
}

interface ReleasedIn {
  /** The block as it was read; absent where it does not exist. */
  readonly read?: Block;
  readonly ordinals: readonly number[];
  /** Has the block as it is now; absent: nothing was released. */
  readonly now?: Block;
}

/** Chooses and releases in one write of the block, and again when the block has moved on. */
export function releaseFrom(operation: Operation, cidr: string, request: BlockRelease): Promise<ReleasedIn> {
  return operation.retry(`block ${cidr}`, () => operation.writer.write(new ReleasePart(operation, cidr, request)));
}

/** Stands for a release so long ago that it is over, whatever the cooldown. */
const LONG_AGO_MS = 0;

/** Puts ordinals into cooldown; the write itself sets free those whose cooldown is over. */
export class ReleasePart extends BlockPart<ReleasedIn> {
  readonly kind = "release";
  readonly #request: BlockRelease;
  #read: Block | undefined;
  #choice: ChosenRelease = { ordinals: [] };

  constructor(operation: Operation, cidr: string, request: BlockRelease) {
    super(operation, cidr);
    this.#request = request;
  }

  choose({ stored, chosen, mayBeOld }: Choosing): Choice {
    this.#read = stored;
    try {
      this.#choice = stored === undefined ? { ordinals: [] } : this.#request.choose(stored);
    } catch (error) {
      if (mayBeOld) return "fresh";
      this.fail(error);
      return "nothing";
    }
    const { ordinals, mustWrite = false } = this.#choice;
    this.ordinals = ordinals;
    // Two that release the same: the second finds it done.
    if (ordinals.some((ordinal) => chosen.has(ordinal))) {
      this.answer(AGAIN);
      return "nothing";
    }
    if (ordinals.length > 0 || mustWrite) return "write";
    if (mayBeOld) return "fresh";
    this.answer({ result: { read: stored, ordinals } });
    return "nothing";
  }

  async prepare(): Promise<boolean> {
    if (this.#read !== undefined && this.ordinals.length > 0) await this.#request.prepare?.(this.#read, this.ordinals);
    return true;
  }

  apply(block: Block, nowMs: number): Block {
    const { ordinals, newSequence, neverUsed = false } = this.#choice;
    return ordinals.length === 0 ? block : release(block, ordinals, neverUsed ? LONG_AGO_MS : nowMs, newSequence);
  }

  done(written: Block): void {
    const { ordinals } = this;
    this.answer({ result: { read: this.#read, ordinals, now: ordinals.length > 0 ? written : undefined } });
  }

  async failed({ error }: FailedWrite): Promise<void> {
    if (isDatastoreFailure(error, "conflict", "not-found")) this.answer(AGAIN);
    else this.fail(error);
  }
}
