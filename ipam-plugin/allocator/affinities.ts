/** Blocks of an owner as a whole: claiming them on request, giving them up with the host or the pool (I§3.12, I§4.3, I§1.8). */
import { contains, covers, maskPrefix, type Prefix, parsePrefix } from "../../lib/addresses/address.ts";
import type { BlockOwner } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { isEmpty, isOwnedBy, nextSequence, prefixOf, withoutOwner } from "./block.ts";
import { blockAt, indexOf } from "./choose-block.ts";
import { claimBlock, NOT_OURS, putState } from "./claim.ts";
import { AGAIN, type Operation } from "./operation.ts";
import { enabledPools, type UsablePool } from "./pools.ts";
import { releaseAffinity } from "./release-affinity.ts";
import type { ClaimAffinityResult, ReleaseAffinityOptions } from "./types.ts";

/** Claims every block of a CIDR. @throws TortieError `claim-too-small`, `address-outside-pools`, `pool-entry-invalid` */
export async function claimAffinity(operation: Operation, cidr: string, owner: BlockOwner): Promise<ClaimAffinityResult> {
  const prefix = cidrOf(cidr);
  const pool = (await enabledPools(operation, prefix.address.family)).find((candidate) => contains(candidate.prefix, prefix.address));
  if (pool === undefined)
    throw new TortieError("address-outside-pools", `The requested CIDR (${cidr}) is not within any configured pools.`);
  if (prefix.length > pool.pool.blockSize)
    throw new TortieError("claim-too-small", `The requested CIDR (${cidr}) is smaller than the minimum.`);
  const claimed: string[] = [];
  const failed: string[] = [];
  for (const block of blocksIn(pool, prefix)) {
    const outcome = await claimBlock(operation, { owner, cidr: block, expectBlock: true });
    (outcome === NOT_OURS ? failed : claimed).push(block);
  }
  return { claimed, failed };
}

/** Gives up every block of an owner; goes on after failures and throws the last. */
export async function releaseHostAffinities(
  operation: Operation,
  owner: BlockOwner,
  { mustBeEmpty }: ReleaseAffinityOptions,
): Promise<void> {
  const listed = [
    ...(await operation.datastore.affinities.listByOwner(owner, 4)),
    ...(await operation.datastore.affinities.listByOwner(owner, 6)),
  ];
  await releaseAll(
    operation,
    listed.map(({ value }) => ({ owner, cidr: value.cidr })),
    mustBeEmpty,
  );
}

/** Takes every block inside a CIDR from its owner, affinities without block and blocks without affinity included. */
export async function releasePoolAffinities(operation: Operation, cidr: string): Promise<void> {
  const prefix = cidrOf(cidr);
  const affinities = (await operation.datastore.affinities.listAll()).map(({ value }) => value);
  await releaseAll(
    operation,
    affinities.filter((affinity) => covers(prefix, prefixOf(affinity.cidr))),
    false,
  );
  for (const { value } of await operation.datastore.blocks.list()) {
    if (value.affinity !== undefined && covers(prefix, prefixOf(value.cidr))) await disown(operation, value.cidr, value.affinity);
  }
}

/** Writes the look-up labels on affinities that lack them (I§1.8). */
export async function upgradeHost(operation: Operation, owner: BlockOwner): Promise<number> {
  const { affinities } = operation.datastore;
  let mended = 0;
  for (const listed of await affinities.listUnlabelled()) {
    const { value } = listed;
    if (value.labelled || value.owner.type !== owner.type || value.owner.name !== owner.name) continue;
    let read: typeof listed | undefined = listed;
    await operation.retry(`affinity of ${owner.name} for ${value.cidr}`, async () => {
      const stored = read ?? (await affinities.get(value));
      read = undefined;
      if (stored === undefined || stored.value.labelled) return { result: undefined };
      try {
        await putState(operation, stored, stored.value.state);
        mended++;
        return { result: undefined };
      } catch (error) {
        if (isDatastoreFailure(error, "conflict", "not-found")) return AGAIN;
        throw error;
      }
    });
  }
  return mended;
}

async function releaseAll(
  operation: Operation,
  affinities: readonly { readonly owner: BlockOwner; readonly cidr: string }[],
  mustBeEmpty: boolean,
): Promise<void> {
  let last: unknown;
  let hasFailed = false;
  for (const { owner, cidr } of affinities) {
    try {
      await releaseAffinity(operation, { owner, cidr, mustBeEmpty });
    } catch (error) {
      operation.signal?.throwIfAborted();
      // Another owner's block by now: nothing of this owner is left to release.
      if (error instanceof TortieError && error.word === "block-claimed") continue;
      last = error;
      hasFailed = true;
    }
  }
  if (hasFailed) throw last;
}

/** A block whose affinity object is missing loses its owner all the same. */
function disown(operation: Operation, cidr: string, owner: BlockOwner): Promise<void> {
  return operation.retry(`block ${cidr}`, async () => {
    const stored = await operation.datastore.blocks.get(cidr);
    if (stored === undefined || !isOwnedBy(stored.value, owner)) return { result: undefined };
    if ((await operation.datastore.affinities.get({ owner, cidr })) !== undefined) return { result: undefined };
    try {
      if (isEmpty(stored.value)) await operation.datastore.blocks.delete(cidr, stored.revision);
      else
        await operation.datastore.blocks.update(cidr, nextSequence(withoutOwner(stored.value), operation.clock.nowNs()), stored.revision);
      return { result: undefined };
    } catch (error) {
      if (isDatastoreFailure(error, "conflict", "not-found")) return AGAIN;
      throw error;
    }
  });
}

function* blocksIn(pool: UsablePool, prefix: Prefix): Generator<string> {
  const first = prefix.length <= pool.prefix.length ? pool.prefix : prefix;
  const count = 1n << BigInt(pool.pool.blockSize - first.length);
  const start = indexOf(pool, first.address.value);
  for (let step = 0n; step < count; step++) yield blockAt(pool, start + step).cidr;
}

function cidrOf(text: string): Prefix {
  const prefix = parsePrefix(text);
  if (prefix === undefined) throw new TortieError("pool-entry-invalid", `invalid CIDR address: ${text}`);
  return maskPrefix(prefix);
}
