/** What the checks of the agent's health decide by (A§8.3). */

import type { ApiCall } from "../kubernetes/api-client.ts";
import type { CacheState } from "../kubernetes/watch/resource-cache.ts";
import type { Clock } from "../system/clock.ts";
import type { Check, CheckResult } from "./health.ts";
import type { ControllerStatus } from "./parameters.ts";

/** Failures in a row after which a controller is reported. */
const NOTED_FAILURES = 3;
/** An API server that has not been heard of for this long is a failure (A§8.3). */
const MOST_LOST_MS = 60_000;

/** An API server, by the watches: they end when it is away, and their heartbeat notices when it is silent. */
export function apiServerCheck(states: () => readonly CacheState[], clock: Pick<Clock, "now">): Check {
  return {
    name: "datastore",
    decides: "ready",
    look(): CheckResult {
      const all = states();
      if (all.some(({ lostSince }) => lostSince === undefined)) return { state: "ok", message: "the API server is being heard of" };
      if (all.length === 0) return { state: "ok", message: "nothing is watched" };
      const lostFor = clock.now() - Math.max(...all.map(({ lostSince = 0 }) => lostSince));
      const cause = all.find(({ problem }) => problem !== undefined)?.problem;
      return {
        state: lostFor >= MOST_LOST_MS ? "failure" : "warning",
        message: `the API server has not been heard of for ${Math.floor(lostFor / 1000)} s${cause === undefined ? "" : `: ${cause}`}`,
        next: "see whether this node reaches the API server; pods that run are not affected, DEL works",
      };
    },
  };
}

/** Caches that do not follow although others do, mostly for want of rights. */
export function watchesCheck(states: () => readonly CacheState[]): Check {
  return {
    name: "watches",
    decides: "shown",
    look(): CheckResult {
      const all = states();
      const broken = all.filter(({ problem }) => problem !== undefined);
      if (broken.length === 0) return { state: "ok", message: `${all.length} watches` };
      const words = broken.map(({ name, problem }) => `${name}: ${problem}`);
      return { state: "warning", message: words.join("; "), next: "compare the agent's rights with manifests/node/rbac.yaml" };
    },
  };
}

/** Whether the API server knows us: by the statuses of its answers. */
export class CredentialsCheck {
  #isRefused = false;

  /** Of every answer (`ApiConnection`). */
  note(_call: ApiCall, status: number): void {
    if (status !== 0) this.#isRefused = status === 401;
  }

  readonly check: Check = {
    name: "credentials",
    decides: "ready",
    look: () =>
      this.#isRefused
        ? { state: "failure", message: "the API server refuses the agent's credentials", next: "renew the token in the kubeconfig" }
        : { state: "ok", message: "not refused" },
  };
}

export function controllersCheck(statuses: () => readonly ControllerStatus[]): Check {
  return {
    name: "controllers",
    decides: "shown",
    look(): CheckResult {
      const all = statuses();
      const failing = all.filter(({ status }) => status["consecutive-failure-count"] >= NOTED_FAILURES);
      if (failing.length === 0) return { state: "ok", message: `${all.length} controllers` };
      const words = failing.map(({ name, status }) => `${name}: ${status["last-failure-msg"] ?? "?"}`);
      return { state: "warning", message: words.join("; "), next: "they are repeated; their messages say what stands in the way" };
    },
  };
}

/** The event loop turns; what runs on it without a pause stands in its way. */
export class LoopCheck {
  static readonly TURN_MS = 2_000;
  static readonly MOST_MS = 5_000;
  readonly #clock: Pick<Clock, "now">;
  readonly #measuredMs: () => number;
  #lastTurn: number;
  #longest = 0;

  /** @param measuredMs longest standstill by a finer measurement, where there is one */
  constructor(clock: Pick<Clock, "now">, measuredMs: () => number = () => 0) {
    this.#clock = clock;
    this.#measuredMs = measuredMs;
    this.#lastTurn = clock.now();
  }

  /** To be called every `TURN_MS` by a timer. */
  turn(): void {
    const now = this.#clock.now();
    this.#longest = Math.max(this.#longest, now - this.#lastTurn - LoopCheck.TURN_MS);
    this.#lastTurn = now;
  }

  /** The longest standstill so far, in milliseconds. */
  get longestMs(): number {
    return Math.max(this.#longest, this.#measuredMs());
  }

  readonly check: Check = {
    name: "event-loop",
    decides: "live",
    look: () => {
      const age = this.#clock.now() - this.#lastTurn;
      return age > LoopCheck.MOST_MS
        ? { state: "failure", message: `the event loop has not turned for ${Math.floor(age / 1000)} s` }
        : { state: "ok", message: `longest standstill ${Math.round(this.longestMs)} ms` };
    },
  };
}

/** Steps in the kernel that wait for something: removing a link, opening a namespace. */
export class KernelCheck {
  static readonly MOST_MS = 30_000;
  readonly #clock: Pick<Clock, "now">;
  readonly #steps = new Set<{ readonly what: string; readonly began: number }>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  async during<T>(what: string, work: () => Promise<T>): Promise<T> {
    const step = { what, began: this.#clock.now() };
    this.#steps.add(step);
    try {
      return await work();
    } finally {
      this.#steps.delete(step);
    }
  }

  readonly check: Check = {
    name: "kernel",
    decides: "live",
    look: () => {
      const late = [...this.#steps].find(({ began }) => this.#clock.now() - began > KernelCheck.MOST_MS);
      return late === undefined
        ? { state: "ok", message: `${this.#steps.size} steps under way` }
        : { state: "failure", message: `${late.what} has not ended for ${Math.floor((this.#clock.now() - late.began) / 1000)} s` };
    },
  };
}
