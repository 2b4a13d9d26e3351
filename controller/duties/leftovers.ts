/**
 * What interrupted operations leave in the data, and no other program collects (I§5.3): handles that no block knows, handles that count too
 * much, blocks without owner and addresses. Found and mended by the doctor's rules; items are `problem <id>`.
 */
import type { Problem, ProblemKind } from "../../doctor/problem.ts";
import { repair } from "../../doctor/repair.ts";
import { handleProblems } from "../../doctor/rules/handle-rules.ts";
import { poolProblems } from "../../doctor/rules/pool-rules.ts";
import { placedBlocks, placedPools } from "../../doctor/snapshot.ts";
import { Operation } from "../../ipam-plugin/allocator/operation.ts";
import type { Duty, DutyContext } from "./duty.ts";
import { mayRelease } from "./may-release.ts";

const MENDED: readonly ProblemKind[] = ["handle-orphan", "handle-count-high", "block-abandoned"];

export class Leftovers implements Duty {
  readonly name = "leftovers";
  readonly #context: DutyContext;

  constructor(context: DutyContext) {
    this.#context = context;
  }

  async look(signal: AbortSignal): Promise<readonly string[]> {
    const { observations, clock, nodeGraceMs } = this.#context;
    const problems = (await mayRelease(this.#context)) ? await this.#problems(signal) : [];
    const now = clock.now();
    observations.look("problem", problems.map(keyOf), now);
    return problems
      .filter((problem) => observations.isConfirmed("problem", keyOf(problem), nodeGraceMs, now))
      .map(({ id }) => `problem ${id}`);
  }

  async work(item: string, signal: AbortSignal): Promise<void> {
    if (!(await mayRelease(this.#context))) return;
    const { datastore, allocatorClock, observations, clock, nodeGraceMs, log } = this.#context;
    const id = item.slice("problem ".length);
    const problem = (await this.#problems(signal)).find((one) => one.id === id);
    if (problem === undefined || !observations.isConfirmed("problem", keyOf(problem), nodeGraceMs, clock.now())) return;
    const { outcome } = await repair(problem, { datastore, clock: allocatorClock, signal });
    if (outcome === "mended") log.info(`mended ${problem.object}: ${problem.message} (${problem.kind})`);
  }

  async #problems(signal: AbortSignal): Promise<readonly Problem[]> {
    const { view, datastore, allocatorClock } = this.#context;
    view.mustBeComplete();
    // Of one moment: a change that comes during the request below is for the next look.
    const { handles } = view;
    const pools = placedPools(view.pools.map(({ pool }) => pool));
    const operation = new Operation({ datastore, clock: allocatorClock }, { signal });
    // Nobody writes a block without owner any more, so that its last addresses stay in it when their cooldown is over.
    const cooled = view.blocks.map(async (block) =>
      block.value.affinity === undefined ? { ...block, value: await operation.cooled(block.value) } : block,
    );
    const blocks = placedBlocks(await Promise.all(cooled));
    return [...handleProblems(blocks, handles), ...poolProblems(blocks, pools)].filter(({ kind }) => MENDED.includes(kind));
  }
}

/** Every write to the object makes it another observation. */
function keyOf({ id, evidence }: Problem): string {
  return `${id} ${evidence}`;
}
