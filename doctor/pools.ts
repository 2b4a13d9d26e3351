/** Blocks against pools and against each other: every block is an aligned part of one pool, of the pool's block size. */
import { isEmpty } from "../ipam-plugin/allocator/block.ts";
import { releaseAffinity } from "../ipam-plugin/allocator/release-affinity.ts";
import { covers, formatPrefix } from "../lib/addresses/address.ts";
import { GONE, MENDED, type Problem, problem, type Repair, type RepairOutcome } from "./problem.ts";
import { type PlacedBlock, type PlacedPool, placedBlocks, placedPools } from "./snapshot.ts";

export function poolProblems(blocks: readonly PlacedBlock[], pools: readonly PlacedPool[]): readonly Problem[] {
  return [
    ...blocks.flatMap((placed) => [...outsideOf(placed, pools), ...sizeProblem(placed, pools), ...abandoned(placed)]),
    ...overlaps(blocks, pools),
  ];
}

/** Pools that could have made the block; more than one only where pools overlap. */
function poolsOf({ prefix }: PlacedBlock, pools: readonly PlacedPool[]): readonly PlacedPool[] {
  return pools.filter((pool) => covers(pool.prefix, prefix));
}

function outsideOf(placed: PlacedBlock, pools: readonly PlacedPool[]): readonly Problem[] {
  if (poolsOf(placed, pools).length > 0) return [];
  return [found("block-outside-pools", placed, "lies in no pool")];
}

function sizeProblem(placed: PlacedBlock, pools: readonly PlacedPool[]): readonly Problem[] {
  const holding = poolsOf(placed, pools);
  const [first] = holding;
  if (first === undefined || holding.some(({ pool }) => pool.blockSize === placed.prefix.length)) return [];
  const { pool } = first;
  return [found("block-size", placed, `is a /${placed.prefix.length}, blocks of pool ${pool.name} (${pool.cidr}) are /${pool.blockSize}`)];
}

/** A block without an owner and without addresses stays behind when its last address leaves its cooldown (I§4.3). */
function abandoned(placed: PlacedBlock): readonly Problem[] {
  const { block } = placed;
  if (block.affinity !== undefined || !isEmpty(block)) return [];
  return [
    problem("block-abandoned", {
      object: `block ${block.cidr}`,
      message: "has neither owner nor addresses",
      severity: "note",
      subject: { type: "block", cidr: block.cidr },
    }),
  ];
}

/** Sorted blocks nest like brackets: every block that is still open contains the next one. */
function overlaps(sorted: readonly PlacedBlock[], pools: readonly PlacedPool[]): readonly Problem[] {
  const problems: Problem[] = [];
  let open: PlacedBlock[] = [];
  for (const inner of sorted) {
    open = open.filter((outer) => covers(outer.prefix, inner.prefix));
    for (const outer of open) problems.push(overlap(outer, inner, pools));
    open.push(inner);
  }
  return problems;
}

/** About the one that can go: empty, and of a size that no pool wants if there is a choice. */
function overlap(outer: PlacedBlock, inner: PlacedBlock, pools: readonly PlacedPool[]): Problem {
  const fits = (placed: PlacedBlock) => poolsOf(placed, pools).some(({ pool }) => pool.blockSize === placed.prefix.length);
  const candidates = [inner, outer].filter(({ block }) => isEmpty(block));
  const worst = candidates.find((placed) => !fits(placed)) ?? candidates[0] ?? inner;
  const other = worst === inner ? outer : inner;
  return found("blocks-overlap", worst, `overlaps with block ${formatPrefix(other.prefix)}: an address could be given twice`);
}

function found(kind: "block-outside-pools" | "block-size" | "blocks-overlap", { block }: PlacedBlock, message: string): Problem {
  return problem(kind, {
    object: `block ${block.cidr}`,
    message,
    isRepairable: isEmpty(block),
    subject: { type: "block", cidr: block.cidr },
  });
}

/** Removes a block that is empty and should not be, with its affinity. */
export async function removeBlock({ operation, problem }: Repair, cidr: string): Promise<RepairOutcome> {
  const { blocks } = operation.datastore;
  const listed = await operation.blocks();
  const all = await Promise.all(listed.map(async ({ value, revision }) => ({ value: await operation.cooled(value), revision })));
  const now = poolProblems(placedBlocks(all), placedPools(await operation.pools()));
  const block = all.find(({ value }) => value.cidr === cidr);
  if (block === undefined || !isEmpty(block.value) || !now.some(({ id, isRepairable }) => id === problem.id && isRepairable)) return GONE;

  const { affinity: owner, sequenceNumber } = block.value;
  const release = owner && { owner, cidr, mustBeEmpty: true, sequenceNumber };
  const isReleased = release !== undefined && (await releaseAffinity(operation, release));
  if (!isReleased) await blocks.delete(cidr, block.revision);
  return MENDED;
}
