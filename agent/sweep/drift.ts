/**
 * Asks for a build to mend routes, rules, settings and links that differ from what an endpoint wants (A§8.1). Leaves one alone that another
 * program keeps changing back, after three times in ten minutes, and reports it.
 */

import type { Difference } from "../../dataplane/desired-state.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { type Clock, nextTurn } from "../../lib/system/waiting.ts";
import { isUnproven } from "../endpoints/sandbox.ts";

const MOST_MENDS = 3;
const WINDOW_MS = 600_000;

interface DriftOptions {
  readonly clock: Pick<Clock, "now">;
  /** Those that are ready: no build or removal is under way. */
  readonly endpoints: () => readonly number[];
  /** Compares one endpoint with the kernel. */
  readonly drift: (id: number) => Promise<readonly Difference[]>;
  /** Asks for a build of level 1. */
  readonly mend: (id: number, reason: string) => void;
  /** What cannot be compared because its sandbox cannot be proven; `undefined` when there is nothing. */
  readonly onUnproven: (what: string | undefined) => void;
  /** Of an endpoint: what is left alone; `undefined` when nothing is. */
  readonly onContested: (id: number, what: string | undefined) => void;
  /** Called for each difference that a build shall mend. */
  readonly onFound: (difference: Difference) => void;
}

export class Drift {
  readonly #options: DriftOptions;
  /** When each object of an endpoint was mended. */
  readonly #mends = new Map<string, readonly number[]>();

  constructor(options: DriftOptions) {
    this.#options = options;
  }

  /** Compares every endpoint, one after the other. @throws Error when one could not be compared, after the others were */
  async run(signal: AbortSignal): Promise<void> {
    const failures: string[] = [];
    const unproven: string[] = [];
    const endpoints = this.#options.endpoints();
    this.#forgetOthers(new Set(endpoints));
    for (const id of endpoints) {
      // A comparison is synchronous; calls that arrived meanwhile come before the next one.
      await nextTurn();
      if (signal.aborted) return;
      try {
        this.#judge(id, await this.#options.drift(id));
      } catch (error) {
        (isUnproven(error) ? unproven : failures).push(`endpoint ${id}: ${messageOf(error)}`);
      }
    }
    const [first] = unproven;
    this.#options.onUnproven(
      first && `sandbox-not-visible: ${unproven.length} endpoints cannot be compared, nor mended: the first is ${first}`,
    );
    if (failures.length > 0) throw new Error(`${failures.length} endpoints could not be compared: ${failures[0]}`);
  }

  #judge(id: number, differences: readonly Difference[]): void {
    const { mend, onContested, onFound } = this.#options;
    const contested = differences.filter((difference) => this.#recentMends(id, difference).length >= MOST_MENDS);
    const words = contested.map(({ side, object, found }) => `${side} ${object} (${found})`).join(", ");
    onContested(id, words === "" ? undefined : `drift-contested: endpoint ${id}: ${words} is changed again and again by somebody else`);
    const mendable = differences.filter((difference) => !contested.includes(difference));
    const [first] = mendable;
    if (first === undefined) return;
    for (const difference of mendable) {
      this.#mends.set(keyOf(id, difference), [...this.#recentMends(id, difference), this.#options.clock.now()]);
      onFound(difference);
    }
    mend(id, `drift: ${first.side} ${first.object}${mendable.length > 1 ? ` and ${mendable.length - 1} more` : ""}`);
  }

  #recentMends(id: number, difference: Difference): readonly number[] {
    const now = this.#options.clock.now();
    return (this.#mends.get(keyOf(id, difference)) ?? []).filter((time) => now - time < WINDOW_MS);
  }

  #forgetOthers(ids: ReadonlySet<number>): void {
    const now = this.#options.clock.now();
    for (const [key, times] of this.#mends) {
      const isGone = !ids.has(Number(key.slice(0, key.indexOf(" "))));
      if (isGone || times.every((time) => now - time >= WINDOW_MS)) this.#mends.delete(key);
    }
  }
}

function keyOf(id: number, { side, object }: Difference): string {
  return `${id} ${side} ${object}`;
}
