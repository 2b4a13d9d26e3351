/**
 * Grants and releases addresses, in the only way there is: their block is written at the revision it was read, once (design,
 * invariant 2). A write has one or many parts, each of which is what one operation grants or releases. Every handle is raised before the
 * block is written, and an ordinal that a write releases is never granted by the same write.
 *
 * Each part has its own answer: one whose handle cannot be written leaves the write, and when the write itself fails each finds out by
 * the block what has become of it.
 */
import type { Family } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { isEmpty, nextSequence, normalise } from "./block.ts";
import type { BlockPart, FailedWrite, Writing } from "./block-part.ts";
import type { Try } from "./types.ts";

/** Is a part, whatever its answer is. */
type Part = Omit<BlockPart<unknown>, "outcome" | "answer">;

export interface BlockWriterOptions {
  /** Most parts of one write; 1, the default: each is written by itself, at once. */
  readonly width?: number;
  /** The node's lock for one write; absent or `undefined`: the write goes on without. */
  readonly lock?: () => Promise<Disposable | undefined>;
  /** Called after every write of a lane. @param outcome `conflict`: another process was first, and it is tried again */
  readonly onWrite?: (outcome: "written" | "conflict" | "failed", parts: number) => void;
}

/**
 * Writes blocks for the operations of one process. With a width above 1 it has a lane for each block, in which one write is under way at
 * a time (group commit, A§11.7): what arrives meanwhile waits and becomes one write when it has ended; an idle lane writes at once.
 */
export class BlockWriter {
  readonly #options: BlockWriterOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #turns = new Map<Family, Promise<void>>();
  /** Tells whether operations share their writes, so that what this process remembers of a block is good enough to try. */
  readonly isShared: boolean;

  constructor(options: BlockWriterOptions = {}) {
    this.#options = options;
    this.isShared = (options.width ?? 1) > 1;
  }

  /** @param read the block as it was read a moment ago: written as such by a writer of width 1, while a lane knows the block itself */
  write<T>(part: BlockPart<T>, read?: Versioned<Block>): Promise<Try<T>> {
    if (this.isShared) this.#laneOf(part.cidr).join(part);
    else writeParts(part.cidr, [part], { read, mayBeOld: false }).catch((error: unknown) => part.fail(error));
    return part.outcome;
  }

  /**
   * Runs `work`, which looks for another block. Where writes are shared, operations of one family do so one at a time: what one of them
   * has claimed has room for the others.
   * @returns false after the work of another operation, without having run `work`: there may be room now
   */
  async inTurn(family: Family, work: () => Promise<void>): Promise<boolean> {
    const before = this.#turns.get(family);
    if (before !== undefined) {
      await before;
      return false;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.isShared) this.#turns.set(family, promise);
    try {
      await work();
      return true;
    } finally {
      this.#turns.delete(family);
      resolve();
    }
  }

  #laneOf(cidr: string): Lane {
    return this.#lanes.getOrInsertComputed(cidr, () => new Lane(cidr, this.#options, () => this.#lanes.delete(cidr)));
  }
}

/** Writes for an executable, which serves one call. */
export const WRITES_ALONE = new BlockWriter();

/**
 * Takes the node's lock (I§1.8) for each write. It only spares conflicts with other processes, so that a lane goes on without it when
 * it is not free soon.
 */
class Lane {
  readonly #cidr: string;
  readonly #options: BlockWriterOptions;
  readonly #onIdle: () => void;
  readonly #waiting: Part[] = [];
  #isWriting = false;
  /** Says that the last write did not go through: what is remembered of the block is old. */
  #isDoubtful = false;

  constructor(cidr: string, options: BlockWriterOptions, onIdle: () => void) {
    this.#cidr = cidr;
    this.#options = options;
    this.#onIdle = onIdle;
  }

  join(part: Part): void {
    this.#waiting.push(part);
    if (!this.#isWriting) void this.#write();
  }

  async #write(): Promise<void> {
    const { width, onWrite } = this.#options;
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      using _lock = await this.#lock();
      const parts = this.#waiting.splice(0, width);
      try {
        const isWritten = await writeParts(this.#cidr, parts, { mayBeOld: !this.#isDoubtful });
        this.#isDoubtful = !isWritten;
        onWrite?.(isWritten ? "written" : "conflict", parts.length);
      } catch (error) {
        this.#isDoubtful = true;
        onWrite?.("failed", parts.length);
        for (const part of parts) part.fail(error);
      }
    }
    this.#isWriting = false;
    this.#onIdle();
  }

  async #lock(): Promise<Disposable | undefined> {
    try {
      return await this.#options.lock?.();
    } catch {
      return undefined;
    }
  }
}

/**
 * Writes the parts; every one has its answer afterwards.
 * @param mayBeOld what is remembered of the block is tried first; what must not rest on it is decided by another read
 * @returns false when the write did not go through
 * @throws what the first read throws; no part has its answer then
 */
async function writeParts(
  cidr: string,
  parts: readonly Part[],
  { read, mayBeOld }: { readonly read?: Versioned<Block> | undefined; readonly mayBeOld: boolean },
): Promise<boolean> {
  const [first] = parts;
  if (first === undefined) return true;
  const { operation } = first;
  let stored = read ?? (await operation.datastore.blocks.get(cidr, { mayBeOld }));
  let choice = await chooseAll(parts, stored, mayBeOld);
  if (choice.undecided.length > 0) {
    stored = await operation.datastore.blocks.get(cidr);
    choice = await chooseAll([...choice.chosen, ...choice.undecided], stored, false);
  }
  const { base } = choice;
  if (stored === undefined || base === undefined) return true;
  // A cooldown that cannot be read keeps addresses from being released, not from being granted.
  const releases = choice.chosen.filter(frees);
  const [release] = releases;
  const cooldown = release === undefined ? 0 : await orFail(releases, () => release.operation.cooldownForRelease());
  const prepared = await prepareAll(cooldown === undefined ? choice.chosen.filter((part) => !frees(part)) : choice.chosen);
  if (prepared.length === 0) return true;
  const changed = changedBy(operation, prepared, base, cooldown ?? 0);
  try {
    await put(operation, changed, stored);
  } catch (error) {
    await failAll(operation, prepared, stored, { error, changed });
    return false;
  }
  for (const part of prepared) part.done(changed);
  return true;
}

interface Chosen {
  /** Those that take part. */
  readonly chosen: readonly Part[];
  readonly undecided: readonly Part[];
  /** The block with cooled ordinals free. */
  readonly base: Block | undefined;
}

/** Releases choose first: they know their ordinals, grants take what is free. */
async function chooseAll(parts: readonly Part[], stored: Versioned<Block> | undefined, mayBeOld: boolean): Promise<Chosen> {
  const grants = parts.filter(isGrant);
  const [grant] = grants;
  const cooled =
    grant === undefined || stored === undefined ? stored?.value : await orFail(grants, () => grant.operation.normalised(stored.value));
  // A configuration that cannot be read keeps addresses from being granted, not from being released.
  const canGrant = cooled !== undefined || stored === undefined;
  const ordinals = new Set<number>();
  const chosen: Part[] = [];
  const undecided: Part[] = [];
  for (const part of [...parts.filter(isRelease), ...(canGrant ? grants : [])]) {
    const choice = part.choose({ stored: stored?.value, block: cooled, chosen: ordinals, mayBeOld });
    if (choice === "fresh") undecided.push(part);
    if (choice !== "write") continue;
    chosen.push(part);
    for (const ordinal of part.ordinals) ordinals.add(ordinal);
  }
  return { chosen, undecided, base: cooled ?? stored?.value };
}

/** @returns `undefined` when `work` failed, and the parts with it */
async function orFail<T>(parts: readonly Part[], work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    for (const part of parts) part.fail(error);
    return undefined;
  }
}

async function prepareAll(parts: readonly Part[]): Promise<readonly Part[]> {
  const outcomes = await Promise.allSettled(parts.map((part) => part.prepare()));
  return parts.filter((part, index) => {
    const outcome = outcomes[index];
    if (outcome?.status === "rejected") part.fail(outcome.reason);
    return outcome?.status === "fulfilled" && outcome.value;
  });
}

function changedBy({ clock }: Writing, parts: readonly Part[], base: Block, cooldownSeconds: number): Block {
  const nowMs = clock.nowMs();
  const changed = parts.reduce((block, part) => part.apply(block, nowMs), base);
  return nextSequence(parts.some(frees) ? normalise(changed, cooldownSeconds, nowMs) : changed, clock.nowNs());
}

/** Writes the block; an empty one without owner goes with its last address. */
async function put({ datastore: { blocks } }: Writing, changed: Block, { value, revision }: Versioned<Block>): Promise<void> {
  if (changed.affinity === undefined && isEmpty(changed) && !isEmpty(value)) await blocks.delete(changed.cidr, revision);
  else await blocks.update(changed.cidr, changed, revision);
}

/** Fails all parts with one look at the block. */
async function failAll(
  operation: Writing,
  parts: readonly Part[],
  stored: Versioned<Block>,
  failed: Omit<FailedWrite, "now">,
): Promise<void> {
  try {
    const now = parts.some(isGrant) ? await blockAfter(operation, stored, failed.error) : undefined;
    await Promise.all(parts.map((part) => part.failed({ ...failed, now })));
  } catch (failure) {
    for (const part of parts) part.fail(failure);
  }
}

/**
 * Reads the block after a write that failed: it may have happened after all, because only its answer was lost. A conflict may mean
 * that as well: the write was repeated after another process had written the block. When it cannot be told the error goes on, and the
 * handle keeps its count: too high does no harm, and the DEL of this attachment sets it right.
 *
 * @returns `undefined`: certainly not written, or gone
 */
async function blockAfter(operation: Writing, { value, revision }: Versioned<Block>, error: unknown): Promise<Block | undefined> {
  if (isDatastoreFailure(error, "not-found", "invalid", "unauthorized")) return undefined;
  const now = await operation.datastore.blocks.get(value.cidr);
  if (now === undefined) return undefined;
  if (now.revision !== revision) return now.value;
  if (isDatastoreFailure(error, "conflict")) return undefined;
  throw error;
}

const isGrant = ({ kind }: Part): boolean => kind === "grant";
const isRelease = ({ kind }: Part): boolean => kind === "release";
const frees = ({ kind, ordinals }: Part): boolean => kind === "release" && ordinals.length > 0;
