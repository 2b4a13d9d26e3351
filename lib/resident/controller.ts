/**
 * One named background task: runs, waits, runs again (A§6.1). Runs of one controller never overlap; a request to run that comes while
 * one is under way is remembered once.
 */
import { messageOf } from "../errors/errors.ts";
import { type BackOff, type Clock, jittered, pauseAfter } from "../system/clock.ts";
import { ControllerExit, type ControllerParameters, type ControllerRun, type ControllerStatus } from "./parameters.ts";

const LONGEST_PAUSE_MS = 60_000;
const DEFAULT_ERROR_BASE_MS = 1_000;
const DEFAULT_DEADLINE_MS = 60_000;
/** For the last run to end, and then for the stop function. */
const STOP_DEADLINE_MS = 10_000;

export interface ControllerEnvironment {
  readonly clock: Clock;
  /** Longest interval; 0: no cap. */
  readonly maxIntervalMs: number;
  readonly onRun: (run: ControllerRun) => void;
}

/** What the next run waits for. */
type Pause = { readonly kind: "none" } | { readonly kind: "sleep"; readonly milliseconds: number } | { readonly kind: "asked" };

const RUN_NOW: Pause = { kind: "none" };
const UNTIL_ASKED: Pause = { kind: "asked" };

export class Controller {
  readonly name: string;
  readonly #uuid = crypto.randomUUID();
  readonly #environment: ControllerEnvironment;
  readonly #removed = new AbortController();
  readonly #loop: Promise<void>;
  #parameters: ControllerParameters;
  /** Ends the pause under way. */
  #asked = Promise.withResolvers<void>();
  #isAsked = false;
  #successes = 0;
  #failures = 0;
  #failuresInARow = 0;
  #lastSuccess: Date | undefined;
  #lastFailure: Date | undefined;
  #lastMessage: string | undefined;

  /** The first run begins at once. */
  constructor(name: string, parameters: ControllerParameters, environment: ControllerEnvironment) {
    this.name = name;
    this.#parameters = parameters;
    this.#environment = environment;
    this.#loop = this.#repeat();
  }

  /** New parameters count from the next run, which begins as soon as one under way has ended. Failures are forgotten. */
  update(parameters: ControllerParameters): void {
    this.#parameters = parameters;
    this.#failures = 0;
    this.#failuresInARow = 0;
    this.#lastMessage = undefined;
    this.trigger();
  }

  trigger(): void {
    this.#isAsked = true;
    this.#asked.resolve();
  }

  /** Aborts the run under way, and calls the stop function when it has ended. Never rejects. */
  async remove(): Promise<void> {
    if (this.#removed.signal.aborted) return this.#loop;
    this.#removed.abort(new Error(`controller ${this.name} is removed`));
    this.trigger();
    await this.#within(STOP_DEADLINE_MS, () => this.#loop);
    const { stop } = this.#parameters;
    if (stop === undefined) return;
    try {
      const isDone = await this.#within(STOP_DEADLINE_MS, stop);
      if (!isDone) this.#noteFailure(`its stop function took longer than ${STOP_DEADLINE_MS / 1000} s`);
    } catch (error) {
      this.#noteFailure(`its stop function failed: ${messageOf(error)}`);
    }
  }

  get status(): ControllerStatus {
    const { intervalMs = 0, errorBaseMs = DEFAULT_ERROR_BASE_MS, noErrorRetry = false } = this.#parameters;
    return {
      name: this.name,
      uuid: this.#uuid,
      configuration: { interval: intervalMs, "error-retry-base": errorBaseMs, "error-retry": !noErrorRetry },
      status: {
        "success-count": this.#successes,
        ...(this.#lastSuccess && { "last-success-timestamp": this.#lastSuccess.toISOString() }),
        "failure-count": this.#failures,
        ...(this.#lastFailure && { "last-failure-timestamp": this.#lastFailure.toISOString() }),
        "consecutive-failure-count": this.#failuresInARow,
        ...(this.#lastMessage !== undefined && { "last-failure-msg": this.#lastMessage }),
      },
    };
  }

  async #repeat(): Promise<void> {
    const { clock } = this.#environment;
    const { signal } = this.#removed;
    while (!signal.aborted) {
      this.#isAsked = false;
      this.#asked = Promise.withResolvers();
      const pause = await this.#runOnce();
      if (this.#isAsked || pause.kind === "none") continue;
      if (pause.kind === "asked") {
        await this.#asked.promise;
        continue;
      }
      const woken = new AbortController();
      void this.#asked.promise.then(() => woken.abort());
      await clock.sleep(pause.milliseconds, woken.signal);
    }
  }

  /** @returns what comes before the next run */
  async #runOnce(): Promise<Pause> {
    const { run, deadlineMs = DEFAULT_DEADLINE_MS, quiet = false } = this.#parameters;
    const { clock, onRun } = this.#environment;
    const began = clock.now();
    const late = new AbortController();
    const ended = new AbortController();
    const report = (outcome: ControllerRun["outcome"], message?: string) =>
      onRun({ name: this.name, outcome, seconds: (clock.now() - began) / 1000, quiet, ...(message !== undefined && { message }) });
    const fail = (message: string) => {
      this.#noteFailure(message);
      report("failure", message);
    };
    // A run that ignores its signal counts as failed although it goes on.
    void clock.sleep(deadlineMs, ended.signal).then(() => {
      if (ended.signal.aborted) return;
      late.abort(new Error(`no end after ${deadlineMs / 1000} s`));
      fail(messageOf(late.signal.reason));
    });
    try {
      await run(AbortSignal.any([this.#removed.signal, late.signal]));
      if (late.signal.aborted) return this.#afterFailure();
      this.#noteSuccess(undefined);
      report("success");
      return this.#afterInterval();
    } catch (error) {
      if (error instanceof ControllerExit) {
        this.#noteSuccess(error.message);
        report("success");
        return UNTIL_ASKED;
      }
      if (this.#removed.signal.aborted) return RUN_NOW;
      if (!late.signal.aborted) fail(messageOf(error));
      return this.#afterFailure();
    } finally {
      ended.abort();
    }
  }

  #afterInterval(): Pause {
    const { intervalMs = 0, isJittered = false } = this.#parameters;
    const { maxIntervalMs, clock } = this.#environment;
    if (intervalMs <= 0) return UNTIL_ASKED;
    const pauseMs = isJittered ? jittered(intervalMs, clock) : intervalMs;
    return { kind: "sleep", milliseconds: maxIntervalMs > 0 ? Math.min(pauseMs, maxIntervalMs) : pauseMs };
  }

  #afterFailure(): Pause {
    const { errorBaseMs = DEFAULT_ERROR_BASE_MS, noErrorRetry = false } = this.#parameters;
    if (noErrorRetry) return this.#afterInterval();
    const backOff: BackOff = { base: errorBaseMs, longest: LONGEST_PAUSE_MS };
    // An update during the run has set the count to zero: this failure was of the work before it.
    return { kind: "sleep", milliseconds: pauseAfter(Math.max(this.#failuresInARow, 1), backOff, this.#environment.clock) };
  }

  #noteSuccess(exit: string | undefined): void {
    this.#successes++;
    this.#failuresInARow = 0;
    this.#lastSuccess = this.#environment.clock.date();
    this.#lastMessage = exit;
  }

  #noteFailure(message: string): void {
    this.#failures++;
    this.#failuresInARow++;
    this.#lastFailure = this.#environment.clock.date();
    this.#lastMessage = message;
  }

  /** @returns false when the limit was over first: the work is told, and no longer waited for */
  async #within(limitMs: number, work: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const late = new AbortController();
    const ended = new AbortController();
    const limit = this.#environment.clock.sleep(limitMs, ended.signal).then(() => false);
    try {
      const isDone = await Promise.race([work(late.signal).then(() => true), limit]);
      if (!isDone) late.abort(new Error(`no end after ${limitMs / 1000} s`));
      return isDone;
    } finally {
      ended.abort();
    }
  }
}
