/** The check itself: every inconsistency between blocks, pools, affinities, handles and endpoints. Pure. */

import type { Problem } from "../problem.ts";
import { type Judgement, placedBlocks, placedPools, type Snapshot } from "../snapshot.ts";
import { affinityProblems } from "./affinity-rules.ts";
import { blockProblems } from "./block-rules.ts";
import { endpointProblems } from "./endpoint-rules.ts";
import { handleProblems } from "./handle-rules.ts";
import { poolProblems } from "./pool-rules.ts";
import { unusedProblems } from "./unused-rules.ts";

/** Every problem and note, those of one rule together, in the order of the objects. */
export function findInconsistencies(snapshot: Snapshot, judgement: Judgement): readonly Problem[] {
  const blocks = placedBlocks(snapshot.blocks);
  const pools = placedPools(snapshot.pools);
  return [
    ...snapshot.blocks.flatMap((block) => blockProblems(block, judgement.nowMs)),
    ...poolProblems(blocks, pools),
    ...affinityProblems(snapshot.blocks, snapshot.affinities),
    ...handleProblems(blocks, snapshot.handles),
    ...endpointProblems(blocks, pools, snapshot.endpoints),
    ...unusedProblems(blocks, snapshot.endpoints, judgement),
  ];
}

/**
 * What is in both findings, unmoved: an operation that was under way during the first (a handle is counted before its block is
 * written, I§5.2) has ended or has written again by the second.
 */
export function standing(first: readonly Problem[], second: readonly Problem[]): readonly Problem[] {
  const before = new Map(first.map((problem) => [problem.id, problem.evidence]));
  return second.filter(({ id, evidence }) => before.get(id) === evidence);
}
