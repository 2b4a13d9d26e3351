/**
 * Judges how the agent is (A§8.3). Alive: nothing remote counts, or an outage of the API server would restart every agent of a cluster.
 * Ready: an ADD can succeed. The document of all checks, waits and findings says since when, and what to do.
 */

import type { ApiFault } from "../kubernetes/api-client.ts";
import type { CacheState } from "../kubernetes/watch/resource-cache.ts";
import { type Clock, SYSTEM_CLOCK } from "../system/waiting.ts";
import type { TaskStatus } from "./tasks.ts";

export type CheckState = "ok" | "warning" | "failure" | "disabled";

/** Numbers the states as the figures have them. */
export const CHECK_VALUES: Readonly<Record<CheckState, number>> = { ok: 0, disabled: 0, warning: 1, failure: 2 };

export interface CheckResult {
  readonly state: CheckState;
  readonly message: string;
  /** What to do about it. */
  readonly next?: string;
}

export interface Check {
  readonly name: string;
  /** `live`: its failure is a reason to restart the process; `ready`: its failure keeps pods away; `shown`: neither. */
  readonly decides: "live" | "ready" | "shown";
  /** Answers from memory, without a request. */
  readonly look: () => CheckResult;
}

interface HealthDocument<P extends string> {
  readonly phase: P;
  readonly state: "ok" | "warning" | "failure";
  readonly ready: boolean;
  readonly live: boolean;
  readonly checks: (CheckResult & { readonly name: string; readonly since: string })[];
  readonly waits: { readonly what: string; readonly since: string }[];
  readonly findings: string[];
}

export class Health<P extends string = string> {
  readonly #clock: Clock;
  readonly #phase: () => P;
  readonly #checks: Check[] = [];
  /** State of each check when it was last looked at, and since when. */
  readonly #states = new Map<string, { readonly state: CheckState; readonly since: Date }>();
  readonly #waits = new Map<symbol, { readonly what: string; readonly since: Date }>();
  readonly #findings = new Map<string, string>();

  /** @param phase `ready` when the agent has begun its work */
  constructor(phase: () => P, clock: Clock = SYSTEM_CLOCK) {
    this.#phase = phase;
    this.#clock = clock;
    this.add({ name: "phase", decides: "ready", look: () => phaseCheck(phase()) });
  }

  add(check: Check): void {
    this.#checks.push(check);
  }

  /** @returns what ends the wait */
  waitFor(what: string): () => void {
    const key = Symbol(what);
    this.#waits.set(key, { what, since: this.#clock.date() });
    return () => this.#waits.delete(key);
  }

  /** Keeps a finding until the next call for its key; `undefined` ends it. */
  find(key: string, finding: string | undefined): void {
    if (finding === undefined) this.#findings.delete(key);
    else this.#findings.set(key, finding);
  }

  get waits(): readonly string[] {
    return [...this.#waits.values()].map(({ what }) => what);
  }

  /** Says why no container could be added now; empty when one could. */
  notReady(): readonly string[] {
    return this.#failures("ready");
  }

  /** Says why the process should be restarted; empty when it should not. */
  notLive(): readonly string[] {
    return this.#failures("live");
  }

  /** Keeps `since` of each state right even when nothing reads it: to be called every few seconds. */
  look(): void {
    for (const check of this.#checks) this.#judge(check);
  }

  document(): HealthDocument<P> {
    const checks = this.#checks.map((check) => {
      const result = this.#judge(check);
      return { name: check.name, ...result, since: (this.#states.get(check.name)?.since ?? this.#clock.date()).toISOString() };
    });
    const [ready, live] = [this.notReady().length === 0, this.notLive().length === 0];
    const isWarned = checks.some(({ state }) => state === "warning" || state === "failure") || this.#findings.size > 0;
    return {
      phase: this.#phase(),
      state: ready && live ? (isWarned ? "warning" : "ok") : "failure",
      ready,
      live,
      checks,
      waits: [...this.#waits.values()].map(({ what, since }) => ({ what, since: since.toISOString() })),
      findings: [...this.#findings.values()],
    };
  }

  #failures(decides: Check["decides"]): readonly string[] {
    return this.#checks
      .filter((check) => check.decides === decides)
      .map((check) => ({ name: check.name, ...this.#judge(check) }))
      .filter(({ state }) => state === "failure")
      .map(({ name, message }) => `${name}: ${message}`);
  }

  #judge({ name, look }: Check): CheckResult {
    const result = look();
    if (this.#states.get(name)?.state !== result.state) this.#states.set(name, { state: result.state, since: this.#clock.date() });
    return result;
  }
}

function phaseCheck(phase: string): CheckResult {
  return phase === "ready"
    ? { state: "ok", message: "the agent is ready" }
    : { state: "failure", message: `the agent is in phase ${phase}`, next: "wait; the waits say for what" };
}

/** Failures in a row after which a controller is reported. */
const NOTED_FAILURES = 3;
/** How long an API server may be silent before it counts as failed (A§8.3). */
const MOST_LOST_MS = 60_000;

/** Checks an API server by the watches: they end when it is away, and their heartbeat notices when it is silent. */
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

/** Makes a check that warns and decides nothing. @param look returns a text where all is well, else what is wrong and what to do */
export function warningCheck(name: string, look: () => string | Pick<CheckResult, "message" | "next">): Check {
  return {
    name,
    decides: "shown",
    look() {
      const found = look();
      return typeof found === "string" ? { state: "ok", message: found } : { state: "warning", ...found };
    },
  };
}

/** Caches that do not follow although others do, mostly for want of rights. */
export function watchesCheck(states: () => readonly CacheState[]): Check {
  return warningCheck("watches", () => {
    const all = states();
    const broken = all.filter(({ problem }) => problem !== undefined);
    if (broken.length === 0) return `${all.length} watches`;
    const words = broken.map(({ name, problem }) => `${name}: ${problem}`);
    return { message: words.join("; "), next: "compare the agent's rights with manifests/node/rbac.yaml" };
  });
}

const REFUSALS: Readonly<Record<"credentials" | "certificate", CheckResult>> = {
  credentials: { state: "failure", message: "the API server refuses the agent's credentials", next: "renew the token in the kubeconfig" },
  certificate: {
    state: "failure",
    message: "the API server's certificate is not trusted",
    next: "put the authority that has signed it into the kubeconfig's CA: it is read again every few seconds",
  },
};

/** Whether the API server and the agent accept each other: by the statuses of its answers, and by refused certificates. */
export class CredentialsCheck {
  #refused: keyof typeof REFUSALS | undefined;

  /** Notes every answer (`ApiConnection`). A server that is away proves nothing. */
  note(status: number, fault: ApiFault | undefined): void {
    if (status !== 0) this.#refused = status === 401 ? "credentials" : undefined;
    else if (fault === "untrusted") this.#refused = "certificate";
  }

  readonly check: Check = {
    name: "credentials",
    decides: "ready",
    look: () => (this.#refused === undefined ? { state: "ok", message: "not refused" } : REFUSALS[this.#refused]),
  };
}

/** Gives what the checks of the agent's health decide by (A§8.3). */
export function controllersCheck(statuses: () => readonly TaskStatus[]): Check {
  return warningCheck("controllers", () => {
    const all = statuses();
    const failing = all.filter(({ status }) => status["consecutive-failure-count"] >= NOTED_FAILURES);
    if (failing.length === 0) return `${all.length} controllers`;
    const words = failing.map(({ name, status }) => `${name}: ${status["last-failure-msg"] ?? "?"}`);
    return { message: words.join("; "), next: "they are repeated; their messages say what stands in the way" };
  });
}

/** Measures standstills of the event loop: what runs on it without a pause stands in its way. */
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

  /** Runs every `TURN_MS` by a timer. */
  turn(): void {
    const now = this.#clock.now();
    this.#longest = Math.max(this.#longest, now - this.#lastTurn - LoopCheck.TURN_MS);
    this.#lastTurn = now;
  }

  /** Gives the longest standstill so far, in milliseconds. */
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
