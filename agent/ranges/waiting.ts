/** What the agent waits for before it has ranges: said once and then every half minute, and shown with its beginning (A§1.3). */
import type { Clock } from "../../lib/system/waiting.ts";

const REPEAT_MS = 30_000;

export interface WaitingState {
  /** `node-object`, `node-list` for the comparison with other nodes, or the word of the error. */
  readonly what: string;
  readonly cause: string;
  /** On the clock that never jumps. */
  readonly sinceMs: number;
}

export class Waiting {
  readonly #clock: Pick<Clock, "now">;
  readonly #log: { error(message: string): void; info(message: string): void };
  readonly #beganMs: number;
  #state: WaitingState | undefined;
  #saidMs = Number.NEGATIVE_INFINITY;
  #saidCause = "";

  constructor(clock: Pick<Clock, "now">, log: { error(message: string): void; info(message: string): void }) {
    this.#clock = clock;
    this.#log = log;
    this.#beganMs = clock.now();
    this.#state = { what: "node-object", cause: "nothing is known yet", sinceMs: this.#beganMs };
  }

  get state(): WaitingState | undefined {
    return this.#state;
  }

  for(what: string, cause: string): void {
    const now = this.#clock.now();
    this.#state = { what, cause, sinceMs: this.#state?.sinceMs ?? now };
    if (cause === this.#saidCause && now - this.#saidMs < REPEAT_MS) return;
    this.#saidMs = now;
    this.#saidCause = cause;
    this.#log.error(`Waiting for k8s node information: ${cause}`);
  }

  over(): void {
    if (this.#saidCause !== "") this.#log.info("the wait for k8s node information is over");
    this.#saidCause = "";
    this.#state = undefined;
  }
}
