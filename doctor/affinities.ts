/** Compares affinities with blocks: the block says who owns it, and its owner has exactly one affinity that says so (I§3.6). */

import { claimBlock, NOT_OURS, putState } from "../ipam-plugin/allocator/affinity.ts";
import { isOwnedBy } from "../ipam-plugin/allocator/block.ts";
import type { AffinityKey, Versioned } from "../lib/datastore/datastore.ts";
import type { Block, BlockAffinity, BlockOwner } from "../lib/datastore/resources.ts";
import {
  blockProblem,
  enumerate,
  GONE,
  MENDED,
  type Problem,
  type ProblemKind,
  problem,
  type Repair,
  type RepairOutcome,
  type Severity,
} from "./problem.ts";

type StoredAffinity = Versioned<BlockAffinity>;

export function affinityProblems(blocks: readonly Versioned<Block>[], affinities: readonly StoredAffinity[]): readonly Problem[] {
  const byBlock = Map.groupBy(affinities, ({ value }) => value.cidr);
  const cidrs = new Set(blocks.map(({ value }) => value.cidr));
  return [
    ...blocks.flatMap((block) => ofBlock(block, byBlock.get(block.value.cidr) ?? [])),
    ...[...byBlock].flatMap(([cidr, dangling]) => (cidrs.has(cidr) ? [] : dangling.map(withoutBlock))),
    ...affinities.flatMap((affinity) => (affinity.value.labelled ? [] : [unlabelled(affinity)])),
  ];
}

/** Judges one block with all its affinities. */
function ofBlock({ value: block }: Versioned<Block>, affinities: readonly StoredAffinity[]): Problem[] {
  const own = affinities.filter(({ value }) => isOwnedBy(block, value.owner));
  const foreign = affinities.filter(({ value }) => !isOwnedBy(block, value.owner));
  const problems: Problem[] = [];
  if (block.affinity !== undefined && own.length === 0) {
    const message = `belongs to ${ownerText(block.affinity)}, who has no affinity for it`;
    problems.push(blockProblem("affinity-missing", block.cidr, message));
  }
  for (const affinity of own) if (affinity.value.state !== "confirmed") problems.push(unfinished(affinity, "its block is there"));

  const confirmed = affinities.filter(({ value }) => value.state === "confirmed");
  const isDouble = confirmed.length > 1;
  if (isDouble) {
    const message = `is confirmed for ${enumerate(confirmed.map(({ value }) => ownerText(value.owner)))} at once`;
    problems.push(blockProblem("affinity-double", block.cidr, message));
  }
  for (const affinity of foreign) {
    if (isDouble && affinity.value.state === "confirmed") continue;
    // A claim begins by writing the affinity, and ends by removing it when the block turns out to be another's.
    const owner = block.affinity === undefined ? "to nobody" : `to ${ownerText(block.affinity)}`;
    problems.push(found("affinity-of-another", affinity, `the block belongs ${owner}`));
  }
  return problems;
}

function withoutBlock(affinity: StoredAffinity): Problem {
  if (affinity.value.state === "pending") return unfinished(affinity, "its block is not there");
  return found("affinity-without-block", affinity, "the block does not exist");
}

function unlabelled(affinity: StoredAffinity): Problem {
  return found("affinity-unlabelled", affinity, "the labels that look-ups go by are missing or wrong");
}

function unfinished(affinity: StoredAffinity, where: string): Problem {
  const step = affinity.value.state === "pending" ? "a claim" : "a release";
  return found("affinity-unfinished", affinity, `${step} was not finished (${affinity.value.state}, ${where})`, "note");
}

function found(kind: ProblemKind, { value, revision }: StoredAffinity, message: string, severity: Severity = "problem"): Problem {
  const { owner, cidr } = value;
  const object = `affinity of ${ownerText(owner)} for block ${cidr}`;
  const subject = { type: "affinity", key: { owner, cidr } } as const;
  return problem(kind, { object, message, severity, evidence: `${message} ${revision}`, subject });
}

/** Writes "host worker-1". */
export function ownerText({ type, name }: BlockOwner): string {
  return `${type} ${name}`;
}

/** Mends one affinity that is wrong, unfinished or unlabelled. */
export async function repairAffinity({ operation, problem }: Repair, key: AffinityKey): Promise<RepairOutcome> {
  const { affinities, blocks } = operation.datastore;
  // The affinity first: a claim writes it, then the block, so that a block which is missing afterwards was never made for it.
  const affinity = await affinities.get(key);
  if (affinity === undefined) return GONE;
  const block = await blocks.get(key.cidr);
  const now = block === undefined ? [withoutBlock(affinity)] : ofBlock(block, [affinity]);
  if (!affinity.value.labelled) now.push(unlabelled(affinity));
  if (!now.some(({ id }) => id === problem.id)) return GONE;

  switch (problem.kind) {
    case "affinity-unlabelled":
      await putState(operation, affinity, affinity.value.state);
      return MENDED;
    case "affinity-unfinished":
      if (block === undefined) break;
      return (await claimBlock(operation, { ...key, affinity, expectBlock: true })) === NOT_OURS ? GONE : MENDED;
  }
  await affinities.delete(key, affinity.revision);
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
