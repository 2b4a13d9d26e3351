/**
 * The builds of one endpoint: what asks for one, what a build covers, and what its outcome changes (A§5.5).
 *
 * A trigger that finds a build waiting queues nothing and raises that one's level. Every trigger is followed by a build of at least its
 * level that began after it: what a build takes with it when it begins is everything that was asked for until then.
 */

import type { EndpointRecord } from "../../../handover/record.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { type Actor, allowsBuild, type State } from "../state/states.ts";
import type { StatusCode, StatusType } from "../state/status-log.ts";
import { EventQueue } from "./event-queue.ts";
import { higher, type Level, levelName } from "./levels.ts";
import type { Permits } from "./permits.ts";
import type { Recovery } from "./recovery.ts";

/** What a build sees of its endpoint. */
export interface Buildable {
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
  /** An ADD waits for it: it goes before others. */
  readonly isAwaited?: boolean;
  /** The build that ends a restore; other triggers leave it to that. */
  readonly isRestore?: boolean;
  /** The links have just been made: they need not be compared. */
  readonly isKernelFresh?: boolean;
}

export interface BuildParts {
  readonly permits: Permits;
  readonly recovery: Recovery;
  /** The work itself. It ends soon after its signal is aborted, and does nothing more then. */
  build(endpoint: Buildable, work: BuildWork, signal: AbortSignal): Promise<void>;
  /** Told of each build's end; for metrics. */
  onBuilt(report: BuildReport): void;
}

export interface BuildReport {
  readonly outcome: "success" | "failure";
  readonly level: Level;
  /** From the first trigger that it covers to its begin, milliseconds. */
  readonly waitedMs: number;
  readonly tookMs: number;
}

export interface BuildWork {
  readonly level: Level;
  readonly reason: string;
  readonly isKernelFresh: boolean;
}

interface Waiter {
  resolve(): void;
  reject(error: unknown): void;
}

/** The triggers that the next build will cover. */
interface Pending {
  level: Level;
  readonly reasons: Set<string>;
  readonly waiters: Waiter[];
  isAwaited: boolean;
  isKernelFresh: boolean;
  /** Of the first trigger, by a clock that never jumps. */
  readonly sinceMs: number;
}

const AWAITED = 0;
const OTHERS = 1;

export class Builds {
  readonly #endpoint: Buildable;
  readonly #parts: BuildParts;
  readonly #queue = new EventQueue();
  #pending: Pending | undefined;

  constructor(endpoint: Buildable, parts: BuildParts) {
    this.#endpoint = endpoint;
    this.#parts = parts;
  }

  /** The highest level that waits for a build. */
  get pendingLevel(): Level | undefined {
    return this.#pending?.level;
  }

  /** Asks for a build and does not wait for it. */
  trigger(trigger: Trigger): void {
    this.#ask(trigger);
  }

  /** Asks for a build and waits until one that covers it has ended. @throws what the build threw; TortieError `endpoint-removed` */
  build(trigger: Trigger): Promise<void> {
    return new Promise((resolve, reject) => this.#ask(trigger, { resolve, reject }));
  }

  /** Cancels what waits, aborts the running build and waits for its end. */
  async stop(): Promise<void> {
    const reason = removed();
    this.#parts.recovery.stop();
    this.#settle(reason);
    await this.#queue.stop(reason);
    this.#settle(reason);
  }

  /** Until no build runs or waits in the queue. */
  idle(): Promise<void> {
    return this.#queue.idle();
  }

  #ask(trigger: Trigger, waiter?: Waiter): void {
    const { state } = this.#endpoint;
    if (!allowsBuild(state)) {
      const message = `Skipping build due to invalid state: ${state}`;
      waiter?.reject(this.#queue.signal.aborted ? removed() : new Error(message));
      return;
    }
    const isDuplicate = this.#pending !== undefined || (state === "restoring" && trigger.isRestore !== true);
    this.#remember(trigger, waiter);
    if (isDuplicate) {
      const message = `Skipped duplicate endpoint regeneration level ${levelName(trigger.level)} trigger due to ${trigger.reason}`;
      this.#endpoint.note("OK", "Other", message);
    } else if (state === "ready" || state === "regenerating") {
      this.#endpoint.transition("waiting-to-regenerate", trigger.reason);
    }
    // A restored endpoint is built when its restore says so; what others ask for meanwhile joins that build.
    if (state !== "restoring" || trigger.isRestore === true) this.#enqueue();
  }

  #remember({ level, reason, isAwaited = false, isKernelFresh = false }: Trigger, waiter: Waiter | undefined): void {
    if (this.#pending === undefined) {
      this.#pending = { level, reasons: new Set([reason]), waiters: [], isAwaited, isKernelFresh, sinceMs: performance.now() };
    } else {
      this.#pending.level = higher(this.#pending.level, level);
      this.#pending.reasons.add(reason);
      this.#pending.isAwaited ||= isAwaited;
      this.#pending.isKernelFresh &&= isKernelFresh;
    }
    if (waiter !== undefined) this.#pending.waiters.push(waiter);
  }

  #enqueue(): void {
    if (!this.#queue.enqueue("build", () => this.#run())) this.#settle(removed());
  }

  async #run(): Promise<void> {
    const { signal } = this.#queue;
    try {
      using _permit = await this.#parts.permits.acquire(() => (this.#pending?.isAwaited === true ? AWAITED : OTHERS), signal);
      await this.#buildOnce(signal);
    } catch (error) {
      // Stopped while it waited for its permit.
      this.#settle(error);
    }
  }

  async #buildOnce(signal: AbortSignal): Promise<void> {
    const pending = this.#take();
    if (pending === undefined) return;
    const { level, reasons, waiters, isKernelFresh, sinceMs } = pending;
    const begunMs = performance.now();
    const reason = [...reasons].join(", ");
    const endpoint = this.#endpoint;
    if (!this.#begin(reason)) {
      const error = new Error(`Skipping build due to invalid state: ${endpoint.state}`);
      for (const { reject } of waiters) reject(error);
      return;
    }
    try {
      await this.#parts.build(endpoint, { level, reason, isKernelFresh }, signal);
      signal.throwIfAborted();
    } catch (error) {
      this.#failed(error, level, signal);
      // A removal is no failure.
      if (!signal.aborted) this.#report("failure", level, sinceMs, begunMs);
      for (const { reject } of waiters) reject(error);
      return;
    }
    endpoint.note("OK", "BPF", `Successfully regenerated endpoint (Reason: ${reason})`);
    this.#end(`Completed endpoint regeneration (Reason: ${reason})`);
    this.#parts.recovery.succeeded();
    this.#report("success", level, sinceMs, begunMs);
    for (const { resolve } of waiters) resolve();
  }

  #report(outcome: BuildReport["outcome"], level: Level, sinceMs: number, begunMs: number): void {
    this.#parts.onBuilt({ outcome, level, waitedMs: begunMs - sinceMs, tookMs: performance.now() - begunMs });
  }

  #take(): Pending | undefined {
    const pending = this.#pending;
    this.#pending = undefined;
    return pending;
  }

  /** Builds of an endpoint without identity leave its state. An identity may have come between the trigger and now. */
  #begin(reason: string): boolean {
    const endpoint = this.#endpoint;
    if (endpoint.state === "waiting-for-identity") return true;
    if (endpoint.state === "ready") endpoint.transition("waiting-to-regenerate", reason);
    return endpoint.transition("regenerating", reason, "builder");
  }

  #failed(error: unknown, level: Level, signal: AbortSignal): void {
    // A removal is no failure.
    if (signal.aborted) return;
    this.#endpoint.note("Failure", "BPF", `Error regenerating endpoint: ${messageOf(error)}`);
    this.#end("Failed endpoint regeneration");
    this.#parts.recovery.failed(() => this.trigger({ level: higher(level, 3), reason: "retrying regeneration" }));
  }

  /** A build that was overtaken leaves the state to the one that follows. */
  #end(reason: string): void {
    if (["regenerating", "waiting-to-regenerate", "restoring"].includes(this.#endpoint.state)) {
      this.#endpoint.transition("ready", reason, "builder");
    }
  }

  #settle(error: unknown): void {
    for (const { reject } of this.#take()?.waiters ?? []) reject(error);
  }
}

function removed(): TortieError {
  return new TortieError("endpoint-removed", "endpoint is in the process of being removed");
}
