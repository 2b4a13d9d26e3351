/**
 * Runs tasks of several clients so that only one of them moves at a time, and a seed decides which: every datastore call and every
 * sleep is a point where another may go on. The same seed gives the same run, call for call.
 */
import type { Call, Fate, Gate } from "./memory-datastore.ts";

/** Numbers in [0, 1) from a 32-bit seed: xorshift with the shifts 13, 17, 5 (Marsaglia, "Xorshift RNGs", 2003). */
export function seededRandom(seed: number): () => number {
  // Neighbouring seeds would give alike beginnings; zero would stay zero.
  let state = Math.imul(seed + 1, 0x9e3779b1) || 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let warmUp = 0; warmUp < 4; warmUp++) next();
  return next;
}

interface Parked {
  readonly label: string;
  /** Virtual milliseconds before which it must not go on. */
  readonly notBefore: number;
  readonly resume: () => void;
}

/** How a task of `run` ended; `crashed`: a fate killed its client, so it never will. */
export type Ending<T> =
  | { readonly state: "done"; readonly value: T }
  | { readonly state: "failed"; readonly error: unknown }
  | { readonly state: "crashed" };

export interface SchedulerOptions {
  readonly seed: number;
  /** What becomes of each call, decided when its turn comes; absent: all proceed. */
  readonly fateOf?: (call: Call, step: number, random: () => number) => Fate;
  /** Called after every step, for invariants. */
  readonly afterStep?: (step: number) => void;
  /** Steps after which the run is given up as endless. Default 100,000. */
  readonly maxSteps?: number;
}

export class Scheduler {
  readonly random: () => number;
  /** What happened, in order, for the report of a failure. */
  readonly trace: string[] = [];
  readonly #options: SchedulerOptions;
  readonly #parked: Parked[] = [];
  #step = 0;
  #nowMs = 1_787_405_600_000;
  #lastNs = 0n;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.random = seededRandom(options.seed);
  }

  /** Pass it to `MemoryStore.connect`. */
  readonly gate: Gate = (call) =>
    new Promise((resolve) => {
      const label = `${call.client}: ${call.phase === "answer" ? "answer of " : ""}${call.operation} ${call.kind} ${call.key}`;
      this.#parked.push({
        label,
        notBefore: 0,
        resume: () => resolve(this.#options.fateOf?.(call, this.#step, this.random) ?? "proceed"),
      });
    });

  /** Virtual time, for the allocator's clock and its back-off. */
  readonly clock = {
    nowMs: (): number => this.#nowMs,
    nowNs: (): bigint => {
      const now = BigInt(Math.floor(this.#nowMs)) * 1_000_000n;
      this.#lastNs = now > this.#lastNs ? now : this.#lastNs + 1n;
      return this.#lastNs;
    },
  };

  readonly sleep = (milliseconds: number): Promise<void> =>
    new Promise((resolve) => {
      this.#parked.push({ label: `sleep ${milliseconds}`, notBefore: this.#nowMs + milliseconds, resume: resolve });
    });

  /** Moves virtual time on. */
  advance(milliseconds: number): void {
    this.#nowMs += milliseconds;
  }

  /**
   * Starts every task and moves one after the other until all have ended, or only tasks of dead clients are left.
   *
   * @throws Error when the run takes too many steps; whatever `afterStep` throws
   */
  async run<T>(tasks: readonly (() => Promise<T>)[]): Promise<readonly Ending<T>[]> {
    const endings: Ending<T>[] = tasks.map(() => ({ state: "crashed" }));
    for (const [index, task] of tasks.entries()) {
      task().then(
        (value) => {
          endings[index] = { state: "done", value };
        },
        (error: unknown) => {
          endings[index] = { state: "failed", error };
        },
      );
    }
    await settled();
    while (this.#parked.length > 0) {
      const next = this.#take();
      this.#step += 1;
      if (this.#step > (this.#options.maxSteps ?? 100_000)) throw new Error(`no end after ${this.#step} steps, at: ${next.label}`);
      this.trace.push(next.label);
      next.resume();
      await settled();
      this.#options.afterStep?.(this.#step);
    }
    return endings;
  }

  /** One of those whose time has come, by the seed; when all sleep, time moves on to the first to wake. */
  #take(): Parked {
    let ready = this.#parked.filter(({ notBefore }) => notBefore <= this.#nowMs);
    if (ready.length === 0) {
      this.#nowMs = Math.min(...this.#parked.map(({ notBefore }) => notBefore));
      ready = this.#parked.filter(({ notBefore }) => notBefore <= this.#nowMs);
    }
    const chosen = ready[Math.floor(this.random() * ready.length)];
    if (chosen === undefined) throw new Error("nothing is parked");
    this.#parked.splice(this.#parked.indexOf(chosen), 1);
    return chosen;
  }
}

/** Everything that was set going has come to rest: a macrotask runs only when no microtask is left. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
