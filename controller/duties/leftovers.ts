/**
 * What interrupted operations leave in the data, and no other program collects (I§5.3): handles that no block knows, handles that count too
 * much, blocks without owner and addresses. Found and mended by the doctor's rules; items are `problem <id>`.
 */
import type { Problem, ProblemKind } from "../../doctor/problem.ts";
import { repair } from "../../doctor/repair.ts";
import { handleProblems } from "../../doctor/rules/handle-rules.ts";
import { poolProblems } from "../../doctor/rules/pool-rules.ts";
import { placedBlocks, placedPools } from "../../doctor/snapshot.ts";
import type { Duty, DutyContext } from "./duty.ts";
import { mayRelease } from "./may-release.ts";

const MENDED: readonly ProblemKind[] = ["handle-orphan", "handle-count-high", "block-abandoned"];

export class Leftovers implements Duty {
  readonly name = "leftovers";
  readonly #context: DutyContext;

  constructor(context: DutyContext) {
    this.#context = context;
  }

  async look(): Promise<readonly string[]> {
    const { observations, clock, nodeGraceMs } = this.#context;
    const problems = (await mayRelease(this.#context)) ? this.#problems() : [];
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
    const problem = this.#problems().find((one) => one.id === id);
    if (problem === undefined || !observations.isConfirmed("problem", keyOf(problem), nodeGraceMs, clock.now())) return;
    const { outcome } = await repair(problem, { datastore, clock: allocatorClock, signal });
    if (outcome === "mended") log.info(`mended ${problem.object}: ${problem.message} (${problem.kind})`);
  }

  #problems(): readonly Problem[] {
    const { view } = this.#context;
    view.mustBeComplete();
    const blocks = placedBlocks(view.blocks);
    const pools = placedPools(view.pools.map(({ pool }) => pool));
    return [...handleProblems(blocks, view.handles), ...poolProblems(blocks, pools)].filter(({ kind }) => MENDED.includes(kind));
  }
}

/** Every write to the object makes it another observation. */
function keyOf({ id, evidence }: Problem): string {
  return `${id} ${evidence}`;
}
