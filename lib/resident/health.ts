/**
 * How the agent is (A§8.3). Alive: nothing remote counts, or an outage of the API server would restart every agent of a cluster. Ready:
 * an ADD can succeed. The document of all checks, waits and findings says since when, and what to do. STATUS is the same judgement.
 */
import { type Clock, SYSTEM_CLOCK } from "../system/clock.ts";

export type CheckState = "ok" | "warning" | "failure" | "disabled";

/** As the figures have it. */
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

export interface HealthDocument<P extends string> {
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

  /** A finding stays until it is told again, `undefined` for its end. */
  find(key: string, finding: string | undefined): void {
    if (finding === undefined) this.#findings.delete(key);
    else this.#findings.set(key, finding);
  }

  get waits(): readonly string[] {
    return [...this.#waits.values()].map(({ what }) => what);
  }

  /** Why no container could be added now; empty when one could. */
  notReady(): readonly string[] {
    return this.#failures("ready");
  }

  /** Why the process should be restarted; empty when it should not. */
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
