/**
 * One write of a block for all who wait for it: grants and releases are computed one after the other by the allocator's own pure
 * functions, every handle is raised before the block is written (design, invariant 2), and the block is written once, at the revision it
 * was read. An ordinal that is released in a write is never granted by the same write.
 *
 * Each part has its own answer: one whose handle cannot be written leaves the write, and when the write itself fails each finds out by
 * the block what has become of it.
 */
import { isEmpty, nextSequence, normalise } from "../../ipam-plugin/allocator/block.ts";
import { blockAfter } from "../../ipam-plugin/allocator/grant.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import type { Part } from "./part.ts";

/**
 * Every part has its answer afterwards.
 * @param mayBeOld what is remembered of the block is tried first; what must not rest on it is decided by another read
 * @returns false when the write did not go through
 * @throws what the first read throws; no part has its answer then
 */
export async function writeTogether(cidr: string, parts: readonly Part[], mayBeOld: boolean): Promise<boolean> {
  const [first] = parts;
  if (first === undefined) return true;
  const { blocks } = first.operation.datastore;
  let stored = await blocks.get(cidr, { mayBeOld });
  let choice = await chooseAll(parts, stored, mayBeOld);
  if (choice.undecided.length > 0) {
    stored = await blocks.get(cidr);
    choice = await chooseAll([...choice.chosen, ...choice.undecided], stored, false);
  }
  const { base } = choice;
  const { ready, cooldownSeconds } = await withCooldown(choice.chosen);
  if (stored === undefined || base === undefined || ready.length === 0) return true;
  const prepared = await prepareAll(ready);
  if (prepared.length === 0) return true;
  const changed = changedBy(prepared, base, cooldownSeconds);
  try {
    await write(prepared, changed, stored);
  } catch (error) {
    await failAll(prepared, stored, changed, error);
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
  const ordinals = new Set<number>();
  const chosen: Part[] = [];
  const undecided: Part[] = [];
  const releases = parts.filter(({ kind }) => kind === "release");
  const grants = parts.filter(({ kind }) => kind === "grant");
  const base = await cooled(grants, stored);
  for (const part of [...releases, ...(base.hasFailed ? [] : grants)]) {
    const choice = part.choose(stored?.value, base.block, ordinals, mayBeOld);
    if (choice === "write") chosen.push(part);
    if (choice === "fresh") undecided.push(part);
  }
  return { chosen, undecided, base: base.block };
}

/** A configuration that cannot be read keeps addresses from being granted, not from being released. */
async function cooled(
  grants: readonly Part[],
  stored: Versioned<Block> | undefined,
): Promise<{ readonly block: Block | undefined; readonly hasFailed: boolean }> {
  const [first] = grants;
  if (first === undefined || stored === undefined) return { block: stored?.value, hasFailed: false };
  try {
    return { block: await first.operation.normalised(stored.value), hasFailed: false };
  } catch (error) {
    for (const part of grants) part.fail(error);
    return { block: stored.value, hasFailed: true };
  }
}

/** A cooldown that cannot be read keeps addresses from being released, not from being granted. */
async function withCooldown(parts: readonly Part[]): Promise<{ readonly ready: readonly Part[]; readonly cooldownSeconds: number }> {
  const releases = parts.filter(({ kind }) => kind === "release");
  const [first] = releases;
  if (first === undefined) return { ready: parts, cooldownSeconds: 0 };
  try {
    return { ready: parts, cooldownSeconds: await first.operation.cooldownForRelease() };
  } catch (error) {
    for (const part of releases) part.fail(error);
    return { ready: parts.filter(({ kind }) => kind === "grant"), cooldownSeconds: 0 };
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

function changedBy(parts: readonly Part[], base: Block, cooldownSeconds: number): Block {
  const [first] = parts;
  if (first === undefined) return base;
  const { clock } = first.operation;
  const nowMs = clock.nowMs();
  let block = base;
  for (const part of parts) block = part.apply(block, nowMs);
  if (parts.some(({ kind }) => kind === "release")) block = normalise(block, cooldownSeconds, nowMs);
  return nextSequence(block, clock.nowNs());
}

/** An empty block without owner goes with its last address. */
async function write(parts: readonly Part[], changed: Block, { value, revision }: Versioned<Block>): Promise<void> {
  const [first] = parts;
  if (first === undefined) return;
  const { blocks } = first.operation.datastore;
  if (changed.affinity === undefined && isEmpty(changed) && !isEmpty(value)) await blocks.delete(changed.cidr, revision);
  else await blocks.update(changed.cidr, changed, revision);
}

/** One look at the block serves all. */
async function failAll(parts: readonly Part[], stored: Versioned<Block>, changed: Block, error: unknown): Promise<void> {
  const [first] = parts;
  if (first === undefined) return;
  try {
    const hasGrants = parts.some(({ kind }) => kind === "grant");
    const now = hasGrants ? await blockAfter(first.operation, stored, changed.cidr, error) : undefined;
    await Promise.all(parts.map((part) => part.failed({ error, now, changed })));
  } catch (failure) {
    for (const part of parts) part.fail(failure);
  }
}
