/**
 * Runs the process's background tasks (A§6.1, A§6.2). Each task has a unique name; an endpoint's tasks carry its id. Outside they are called
 * controllers, as in the API (`/controllers`).
 */
import { messageOf } from "../errors/errors.ts";
import { type Clock, endsWithin, jittered, pauseAfter, SYSTEM_CLOCK } from "../system/waiting.ts";

const LONGEST_PAUSE_MS = 60_000;
const DEFAULT_ERROR_BASE_MS = 1_000;
const DEFAULT_DEADLINE_MS = 60_000;
/** Limits the wait for the run under way when its task is removed. */
const STOP_DEADLINE_MS = 10_000;
/** A pause that only `trigger` and `update` end. */
const UNTIL_ASKED = Number.POSITIVE_INFINITY;

interface TaskParameters {
  /** The work. Its signal is aborted when the run's deadline is over, and when the task is removed. */
  readonly run: (signal: AbortSignal) => Promise<void>;
  /** Pause after a success; 0 when absent: once until success, then not before the next `trigger` or `update`. */
  readonly intervalMs?: number;
  /** The interval is 20 % shorter or longer by chance: a cluster's agents, all started at once, do not all ask at once. */
  readonly isJittered?: boolean;
  /** Pause after the first failure in a row, doubled after each further one up to 1 min; 1 s when absent. */
  readonly errorBaseMs?: number;
  /** Limits one run; 60 s when absent. */
  readonly deadlineMs?: number;
  /** No line in the log for a success. */
  readonly quiet?: boolean;
}

/** Describes a task as the API does (A§2.4, ControllerStatus). */
export interface TaskStatus {
  readonly name: string;
  readonly uuid: string;
  readonly configuration: {
    /** Milliseconds. */
    readonly interval: number;
    readonly "error-retry-base": number;
    readonly "error-retry": boolean;
  };
  readonly status: {
    readonly "success-count": number;
    /** RFC 3339. */
    readonly "last-success-timestamp"?: string;
    readonly "failure-count": number;
    readonly "last-failure-timestamp"?: string;
    readonly "consecutive-failure-count": number;
    /** Says why the last run failed; absent after a success. */
    readonly "last-failure-msg"?: string;
  };
}

/** One run that has ended. */
export interface TaskRun {
  readonly name: string;
  readonly outcome: "success" | "failure";
  readonly seconds: number;
  /** What a failure said. */
  readonly message?: string;
  /** In a row: with this one, or before this success. */
  readonly failures: number;
  readonly quiet: boolean;
}

/** Failures in a row, with pauses of a minute, after which they are reported again. */
const REMINDER = 60;

/** Says what a log does not know yet of failures: that they begin, still go on after a long time, and have ended. */
export function newsOf({ name, outcome, message = "failed", failures }: TaskRun): string | undefined {
  if (outcome === "success") return failures === 0 ? undefined : `${name}: it works again, after ${failures} failures`;
  if (failures === 1) return `${name}: ${message}`;
  return failures % REMINDER === 0 ? `${name}: ${message} (${failures} failures in a row)` : undefined;
}

interface TasksOptions {
  readonly clock?: Clock;
  /** `--max-controller-interval` in milliseconds; 0: no cap. */
  readonly maxIntervalMs?: number;
  /** Runs after each run. */
  readonly onRun?: (run: TaskRun) => void;
}

export class Tasks implements AsyncDisposable {
  readonly #options: Required<TasksOptions>;
  readonly #tasks = new Map<string, Task>();

  constructor({ clock = SYSTEM_CLOCK, maxIntervalMs = 0, onRun = () => {} }: TasksOptions = {}) {
    this.#options = { clock, maxIntervalMs, onRun };
  }

  /** Makes the task, or gives the one of this name new parameters; either runs at once. */
  update(name: string, parameters: TaskParameters): void {
    const known = this.#tasks.get(name);
    if (known !== undefined) known.update(parameters);
    else this.#tasks.set(name, new Task(name, parameters, this.#options));
  }

  /** Runs it now. @returns whether a task has this name */
  trigger(name: string): boolean {
    const known = this.#tasks.get(name);
    known?.trigger();
    return known !== undefined;
  }

  /** Aborts its run, and waits for the run's end, for 10 s at most. Does nothing where no task has this name. */
  async remove(name: string): Promise<void> {
    const known = this.#tasks.get(name);
    this.#tasks.delete(name);
    await known?.remove();
  }

  /** Lists the tasks in the order of their names. */
  statuses(): readonly TaskStatus[] {
    return [...this.#tasks.values()].map(({ status }) => status).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Removes all. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#tasks.keys()].map((name) => this.remove(name)));
  }
}

/** Runs, waits, runs again. Runs of one task never overlap; a request to run that comes during a run is remembered once. */
class Task {
  readonly #name: string;
  readonly #uuid = crypto.randomUUID();
  readonly #options: Required<TasksOptions>;
  readonly #removed = new AbortController();
  readonly #loop: Promise<void>;
  #parameters: TaskParameters;
  /** Aborted when the next run shall begin without a pause. */
  #asked = new AbortController();
  #successes = 0;
  #failures = 0;
  #failuresInARow = 0;
  #lastSuccess: Date | undefined;
  #lastFailure: Date | undefined;
  #lastMessage: string | undefined;

  /** The first run begins at once. */
  constructor(name: string, parameters: TaskParameters, options: Required<TasksOptions>) {
    this.#name = name;
    this.#parameters = parameters;
    this.#options = options;
    this.#loop = this.#repeat();
  }

  /** New parameters count from the next run, which begins as soon as one under way has ended. Failures are forgotten. */
  update(parameters: TaskParameters): void {
    this.#parameters = parameters;
    this.#failures = 0;
    this.#failuresInARow = 0;
    this.#lastMessage = undefined;
    this.trigger();
  }

  trigger(): void {
    this.#asked.abort();
  }

  /** Never rejects. */
  async remove(): Promise<void> {
    this.#removed.abort(new Error(`controller ${this.#name} is removed`));
    this.trigger();
    await endsWithin(this.#options.clock, STOP_DEADLINE_MS, this.#loop);
  }

  get status(): TaskStatus {
    const { intervalMs = 0, errorBaseMs = DEFAULT_ERROR_BASE_MS } = this.#parameters;
    return {
      name: this.#name,
      uuid: this.#uuid,
      configuration: { interval: intervalMs, "error-retry-base": errorBaseMs, "error-retry": true },
      status: {
        "success-count": this.#successes,
        "last-success-timestamp": this.#lastSuccess?.toISOString(),
        "failure-count": this.#failures,
        "last-failure-timestamp": this.#lastFailure?.toISOString(),
        "consecutive-failure-count": this.#failuresInARow,
        "last-failure-msg": this.#lastMessage,
      },
    };
  }

  async #repeat(): Promise<void> {
    while (!this.#removed.signal.aborted) {
      this.#asked = new AbortController();
      const { signal } = this.#asked;
      const pauseMs = await this.#runOnce();
      if (signal.aborted) continue;
      if (pauseMs === UNTIL_ASKED) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      else await this.#options.clock.sleep(pauseMs, signal);
    }
  }

  /** @returns how long to wait before the next run, in milliseconds */
  async #runOnce(): Promise<number> {
    const { run, deadlineMs = DEFAULT_DEADLINE_MS, quiet = false } = this.#parameters;
    const { clock } = this.#options;
    const begun = { at: clock.now(), quiet };
    const late = new AbortController();
    const ended = new AbortController();
    // A run that ignores its signal counts as failed although it goes on.
    void clock.sleep(deadlineMs, ended.signal).then(() => {
      if (ended.signal.aborted) return;
      late.abort(new Error(`no end after ${deadlineMs / 1000} s`));
      this.#note(begun, messageOf(late.signal.reason));
    });
    try {
      await run(AbortSignal.any([this.#removed.signal, late.signal]));
      if (late.signal.aborted) return this.#afterFailure();
      this.#note(begun, undefined);
      return this.#afterSuccess();
    } catch (error) {
      if (!late.signal.aborted && !this.#removed.signal.aborted) this.#note(begun, messageOf(error));
      return this.#afterFailure();
    } finally {
      ended.abort();
    }
  }

  #afterSuccess(): number {
    const { intervalMs = 0, isJittered = false } = this.#parameters;
    const { maxIntervalMs, clock } = this.#options;
    if (intervalMs <= 0) return UNTIL_ASKED;
    const pauseMs = isJittered ? jittered(intervalMs, clock) : intervalMs;
    return maxIntervalMs > 0 ? Math.min(pauseMs, maxIntervalMs) : pauseMs;
  }

  #afterFailure(): number {
    const { errorBaseMs = DEFAULT_ERROR_BASE_MS } = this.#parameters;
    // An update during the run has set the count to zero: this failure was of the work before it.
    return pauseAfter(Math.max(this.#failuresInARow, 1), { base: errorBaseMs, longest: LONGEST_PAUSE_MS }, this.#options.clock);
  }

  /** Counts a run, and reports it. @param failure what it said; `undefined` for a success */
  #note({ at, quiet }: { readonly at: number; readonly quiet: boolean }, failure: string | undefined): void {
    const { clock, onRun } = this.#options;
    this.#lastMessage = failure;
    const failures = failure === undefined ? this.#failuresInARow : this.#failuresInARow + 1;
    if (failure === undefined) {
      this.#successes++;
      this.#failuresInARow = 0;
      this.#lastSuccess = clock.date();
    } else {
      this.#failures++;
      this.#failuresInARow++;
      this.#lastFailure = clock.date();
    }
    const outcome = failure === undefined ? "success" : "failure";
    onRun({ name: this.#name, outcome, seconds: (clock.now() - at) / 1000, quiet, failures, message: failure });
  }
}
