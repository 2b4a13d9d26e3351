/**
 * Decides when the link of one endpoint is compared with its record and mended (A§5.5). A trigger that finds another one waiting joins it.
 * Each trigger is followed by a run of at least its level that began after it: a run takes with it everything that was asked for until then.
 * What failed is tried again for ever.
 */

import { availableParallelism } from "node:os";
import type { EndpointRecord } from "../../handover/record.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { Lane } from "../../lib/system/lane.ts";
import { type Clock, nextTurn, pauseAfter } from "../../lib/system/waiting.ts";
import type { StatusCode, StatusType } from "./status.ts";
import { type Actor, allowsBuild, type State } from "./status.ts";

/** Names the levels that the API and the metrics know. Tortie writes and loads no programs, so each level mends the link and nothing else. */
const LEVELS = { "no-rebuild": 1, reload: 2, "rewrite+load": 3, "compile+load": 4 } as const;
export type Level = (typeof LEVELS)[keyof typeof LEVELS];

export function levelName(level: Level): string {
  return Object.entries(LEVELS).find(([, number]) => number === level)?.[0] ?? "invalid";
}

/** The pause before a failed run is tried again: 1 s, doubled to at most 1 min (A§7.3, A§6.2). */
const BACK_OFF = { base: 1000, longest: 60_000 };

/** What a run sees of its endpoint. */
export interface Mendable {
  readonly record: EndpointRecord;
  readonly state: State;
  /** @returns whether the endpoint is in that state now */
  transition(to: State, reason: string, actor?: Actor): boolean;
  note(code: StatusCode, type: StatusType, message: string): void;
  /** Replaces the record, in memory and on disk. */
  write(record: EndpointRecord): EndpointRecord;
}

export interface Trigger {
  readonly level: Level;
  readonly reason: string;
  /** An ADD waits for the run, which goes before those of other endpoints. */
  readonly isAwaited?: boolean;
  /** Ends a restore. Other triggers of a restored endpoint wait for it. */
  readonly isRestore?: boolean;
  /** The link has just been made and need not be compared. */
  readonly isKernelFresh?: boolean;
}

/** Of an ADD, whose links have been made a moment ago. */
export const INITIAL_BUILD = { level: 3, reason: "Initial build on endpoint creation", isAwaited: true, isKernelFresh: true } as const;
/** Ends a restore: whatever else was asked for meanwhile joins it. */
export const RESTORE_BUILD = { level: 3, reason: "syncing state to host", isRestore: true } as const;

export interface BuildReport {
  readonly outcome: "success" | "failure";
  readonly level: Level;
  /** From the first trigger that the run covers to its begin, milliseconds. */
  readonly waitedMs: number;
  readonly tookMs: number;
}

export interface MendingParts {
  readonly clock: Clock;
  /** All endpoints have the same one. */
  readonly lane: Lane;
  /** Compares the link and mends it. Ends soon after its signal is aborted, and does nothing more then. */
  mend(endpoint: Mendable, signal: AbortSignal): Promise<void>;
  onBuilt?(report: BuildReport): void;
}

/** The triggers that the next run will cover. */
interface Pending {
  readonly triggers: Trigger[];
  /** When the first one came, by a clock that never jumps. */
  readonly sinceMs: number;
  /** Settles with the run that covers them. */
  readonly end: PromiseWithResolvers<void>;
}

export class Mending {
  readonly #endpoint: Mendable;
  readonly #parts: MendingParts;
  readonly #stopped = new AbortController();
  #pending: Pending | undefined;
  #running: Promise<void> | undefined;
  #isAtLink = false;
  #failures = 0;
  #pause: AbortController | undefined;

  constructor(endpoint: Mendable, parts: MendingParts) {
    this.#endpoint = endpoint;
    this.#parts = parts;
  }

  /** Says whether a run is at the link now. One that does not end on request may still make a link that a removal has taken away. */
  get isAtLink(): boolean {
    return this.#isAtLink;
  }

  /** Asks for a run and does not wait for it. */
  trigger(trigger: Trigger): void {
    this.run(trigger).catch(() => undefined);
  }

  /** Waits until a run that covers the trigger has ended. @throws what the run threw; TortieError `endpoint-removed` */
  async run(trigger: Trigger): Promise<void> {
    const endpoint = this.#endpoint;
    const { state } = endpoint;
    if (this.#stopped.signal.aborted) throw removed();
    if (!allowsBuild(state)) throw invalidState(state);
    const isDuplicate = this.#pending !== undefined || (state === "restoring" && trigger.isRestore !== true);
    this.#pending ??= { triggers: [], sinceMs: performance.now(), end: Promise.withResolvers() };
    this.#pending.triggers.push(trigger);
    const { promise } = this.#pending.end;
    if (isDuplicate) {
      const message = `Skipped duplicate endpoint regeneration level ${levelName(trigger.level)} trigger due to ${trigger.reason}`;
      endpoint.note("OK", "Other", message);
    } else if (state === "ready" || state === "regenerating") endpoint.transition("waiting-to-regenerate", trigger.reason);
    this.#running ??= this.#runAll();
    await promise;
  }

  /** Cancels what waits, aborts the run and waits for its end. */
  async stop(): Promise<void> {
    const reason = removed();
    this.#pause?.abort();
    this.#stopped.abort(reason);
    this.#take()?.end.reject(reason);
    await this.#running;
  }

  async #runAll(): Promise<void> {
    const { signal } = this.#stopped;
    // Waits for another turn: the caller may be in the middle of a change.
    await Promise.resolve();
    while (this.#isDue()) {
      const isAwaited = () => this.#pending?.triggers.some((trigger) => trigger.isAwaited === true) === true;
      // Fails only when the endpoint is removed before its turn; `stop` tells whoever waits.
      await this.#parts.lane.run(signal, () => this.#runOnce(signal), isAwaited).catch(() => undefined);
    }
    this.#running = undefined;
  }

  /** Says whether a run may begin. A restored endpoint is mended when its restore says so; what others ask for meanwhile joins that run. */
  #isDue(): boolean {
    if (this.#pending === undefined) return false;
    return this.#endpoint.state !== "restoring" || this.#pending.triggers.some(({ isRestore }) => isRestore === true);
  }

  async #runOnce(signal: AbortSignal): Promise<void> {
    const pending = this.#take();
    if (pending === undefined) return;
    const { triggers, sinceMs, end } = pending;
    const begunMs = performance.now();
    const level = triggers.map((trigger) => trigger.level).reduce(higher);
    const reason = [...new Set(triggers.map((trigger) => trigger.reason))].join(", ");
    const endpoint = this.#endpoint;
    const report = (outcome: BuildReport["outcome"]) =>
      this.#parts.onBuilt?.({ outcome, level, waitedMs: begunMs - sinceMs, tookMs: performance.now() - begunMs });
    if (!this.#begin(reason)) return end.reject(invalidState(endpoint.state));
    try {
      if (!triggers.every(({ isKernelFresh }) => isKernelFresh === true)) await this.#mend(signal);
      signal.throwIfAborted();
    } catch (error) {
      // A removal does not count as a failure.
      if (!signal.aborted) {
        endpoint.note("Failure", "BPF", `Error regenerating endpoint: ${messageOf(error)}`);
        this.#end("Failed endpoint regeneration");
        this.#tryAgain(higher(level, 3));
        report("failure");
      }
      return end.reject(error);
    }
    endpoint.note("OK", "BPF", `Successfully regenerated endpoint (Reason: ${reason})`);
    this.#end(`Completed endpoint regeneration (Reason: ${reason})`);
    this.#pause?.abort();
    this.#failures = 0;
    report("success");
    end.resolve();
  }

  async #mend(signal: AbortSignal): Promise<void> {
    // A comparison is synchronous, and a restore asks for one of each endpoint: calls that wait come before the next one.
    await nextTurn();
    signal.throwIfAborted();
    this.#isAtLink = true;
    try {
      await this.#parts.mend(this.#endpoint, signal);
    } finally {
      this.#isAtLink = false;
    }
  }

  #take(): Pending | undefined {
    const pending = this.#pending;
    this.#pending = undefined;
    return pending;
  }

  /** Leaves the state of an endpoint whose ADD is under way. That ADD may have ended between the trigger and now. */
  #begin(reason: string): boolean {
    const endpoint = this.#endpoint;
    if (endpoint.state === "waiting-for-identity") return true;
    if (endpoint.state === "ready") endpoint.transition("waiting-to-regenerate", reason);
    return endpoint.transition("regenerating", reason, "builder");
  }

  /** Ends a run. One that was overtaken leaves the state to the one that follows. */
  #end(reason: string): void {
    const { state } = this.#endpoint;
    if (state === "regenerating" || state === "waiting-to-regenerate") this.#endpoint.transition("ready", reason, "builder");
  }

  /** Tries again after a pause that grows with each failure in a row, unless a success or the end comes first. */
  #tryAgain(level: Level): void {
    const { clock } = this.#parts;
    this.#pause?.abort();
    const pause = new AbortController();
    this.#pause = pause;
    void clock.sleep(pauseAfter(++this.#failures, BACK_OFF, clock), pause.signal).then(() => {
      if (!pause.signal.aborted) this.trigger({ level, reason: "retrying regeneration" });
    });
  }
}

/** Bounds how many runs there are at once over all endpoints: one for each processor, 2 to 8 (A§5.6). */
export function mendingLane(processors = availableParallelism()): Lane {
  return new Lane({ running: Math.min(8, Math.max(2, processors)) });
}

function higher(one: Level, other: Level): Level {
  return one > other ? one : other;
}

function removed(): TortieError {
  return new TortieError("endpoint-removed", "endpoint is in the process of being removed");
}

function invalidState(state: State): Error {
  return new Error(`Skipping build due to invalid state: ${state}`);
}
