/** What a controller is told, and what it says of itself (A§6.1). */

export interface ControllerParameters {
  /** The work. Its signal is aborted when the run's deadline is over, and when the controller is removed. */
  readonly run: (signal: AbortSignal) => Promise<void>;
  /** Called once when the controller is removed, after the last run; its signal is aborted after 10 s. */
  readonly stop?: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Pause after a success; 0 when absent: once until success, then not before the next `trigger` or `update`. */
  readonly intervalMs?: number;
  /** The interval is 20 % shorter or longer by chance: a cluster's agents, all started at once, do not all ask at once. */
  readonly isJittered?: boolean;
  /** Pause after the first failure in a row, doubled after each further one up to 1 min; 1 s when absent. */
  readonly errorBaseMs?: number;
  /** After a failure the interval counts as after a success. Without an interval there is no second run. */
  readonly noErrorRetry?: boolean;
  /** Of one run; 60 s when absent. */
  readonly deadlineMs?: number;
  /** No line in the log for a success. */
  readonly quiet?: boolean;
}

/** Thrown by a run that wants no further one before the next `update` or `trigger`. It counts as a success. */
export class ControllerExit extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "ControllerExit";
  }
}

/** As the API names it (A§2.4, ControllerStatus). */
export interface ControllerStatus {
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
    /** Of the last failure or exit; absent after a success. */
    readonly "last-failure-msg"?: string;
  };
}

/** One run that has ended. */
export interface ControllerRun {
  readonly name: string;
  readonly outcome: "success" | "failure";
  readonly seconds: number;
  /** What a failure said. */
  readonly message?: string;
  readonly quiet: boolean;
}
