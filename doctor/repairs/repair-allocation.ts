/** An address that no endpoint uses: released, if that is still so at the revision of the block that is written. */

import { isOwnedBy, sanitised, sequenceOf } from "../../ipam-plugin/allocator/block.ts";
import { claimBlock, NOT_OURS } from "../../ipam-plugin/allocator/claim-block.ts";
import { settle } from "../../ipam-plugin/allocator/handle.ts";
import { AGAIN } from "../../ipam-plugin/allocator/operation.ts";
import { ReleasePart } from "../../ipam-plugin/allocator/release-by-handle.ts";
import { parseAddress } from "../../lib/addresses/address.ts";
import type { Subject } from "../problem.ts";
import { ofBlock } from "../rules/affinity-rules.ts";
import { ageMs, belongsToWorkload } from "../rules/unused-rules.ts";
import { addressesOf, allocationAt, keyOf, placedBlock } from "../snapshot.ts";
import { GONE, MENDED, type Repair, type RepairOutcome, refused } from "./repair-outcome.ts";

/**
 * No ADD takes so long: 90 s for the addresses (I§1.8), a minute for the rest. Its endpoint is written last, so that a younger address
 * may get one the next moment, whatever grace the check was given.
 */
const LONGEST_ADD_MS = 5 * 60 * 1000;

export async function releaseUnused(
  { operation, nowMs }: Repair,
  subject: Extract<Subject, { type: "allocation" }>,
): Promise<RepairOutcome | typeof AGAIN> {
  const { blocks, endpoints } = operation.datastore;
  const stored = await blocks.get(subject.cidr);
  const placed = stored === undefined ? undefined : placedBlock(stored);
  const address = parseAddress(subject.address);
  if (stored === undefined || placed === undefined || address === undefined) return GONE;
  const ordinal = Number(address.value - placed.prefix.address.value);
  const allocation = allocationAt(placed, ordinal);
  if (allocation === undefined || !belongsToWorkload(allocation)) return GONE;
  if (allocation.attribute.handleId !== subject.handle || sequenceOf(stored.value, ordinal) !== subject.sequenceNumber) return GONE;

  // Read after the block: an endpoint that is written from here on belongs to an ADD that had the address all the time.
  const used = (await endpoints.list()).some(({ value }) => addressesOf(value).some((other) => keyOf(other) === keyOf(address)));
  if (used) return GONE;
  if ((ageMs(allocation, nowMs) ?? LONGEST_ADD_MS) < LONGEST_ADD_MS)
    return refused("it is younger than five minutes: its ADD may be under way");

  const choose = () => ({ ordinals: [ordinal], newSequence: stored.value.sequenceNumber });
  if ((await operation.writer.write(new ReleasePart(operation, subject.cidr, { choose }), stored)) === AGAIN) return AGAIN;
  if (subject.handle !== undefined) await settle(operation, sanitised(subject.handle), subject.cidr);
  return MENDED;
}

/** Writes the affinity that the block's owner lacks, in the order of a claim, so that a release at the same time is noticed. */
export async function giveToOwner({ operation }: Repair, cidr: string): Promise<RepairOutcome> {
  const { affinities, blocks } = operation.datastore;
  const owner = (await blocks.get(cidr))?.value.affinity;
  if (owner === undefined || (await affinities.get({ owner, cidr })) !== undefined) return GONE;
  return (await claimBlock(operation, { owner, cidr, expectBlock: true })) === NOT_OURS ? GONE : MENDED;
}

/** Removes the confirmed affinities of all who do not own the block. */
export async function leaveToOwner({ operation, problem }: Repair, cidr: string): Promise<RepairOutcome> {
  const { affinities, blocks } = operation.datastore;
  const all = (await affinities.listAll()).filter(({ value }) => value.cidr === cidr);
  const block = await blocks.get(cidr);
  if (block === undefined || !ofBlock(block, all).some(({ id }) => id === problem.id)) return GONE;
  for (const affinity of all) {
    if (affinity.value.state !== "confirmed" || isOwnedBy(block.value, affinity.value.owner)) continue;
    await affinities.delete(affinity.value, affinity.revision);
  }
  return MENDED;
}
