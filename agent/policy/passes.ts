/**
 * Brings what the policy engine has computed into the kernel, one pass after the other. The first change is carried out at once, those that
 * follow within 100 ms go together, and one that an ADD waits for ends the pause. In a burst, a few ADDs share a pass.
 *
 * Nothing is done before `open`: until the engine knows everything, what it does not know would be taken away. The first pass after that,
 * and each one after a failure, compares the whole table.
 */
import type { PacketPolicy, PolicyChange } from "../../dataplane/packet-policy.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import { type BackOff, type Clock, nextTurn, pauseAfter, untilAborted } from "../../lib/system/waiting.ts";
import type { PolicyEngine } from "../../policy/engine.ts";
import type { EngineChange } from "../../policy/model.ts";
import type { KernelPolicy } from "./kernel.ts";

/** From the beginning of one pass to that of the next, unless somebody waits. */
const WINDOW_MS = 100;
/**
 * A pass that somebody waits for begins at once, unless one has begun so shortly before: then other ADDs of a burst are likely to come,
 * and may take as long to come.
 */
const BURST_MS = 20;
/** Limits the ADDs that share a pass: when it ends they all go on in one turn of the event loop, for some milliseconds each. */
const MOST_TOGETHER = 4;
const AFTER_FAILURE: BackOff = { base: 250, longest: 30_000 };
/** Addresses that are looked at without a pause of the event loop. */
const SLICE = 500;
/** Of the differences of one comparison; the rest is a number. */
const MOST_LOGGED = 10;

/** What a pass has brought into the kernel; "all": any part of the table may have changed. */
export type Realised = EngineChange | "all";

export interface PassParts {
  readonly engine: Pick<PolicyEngine, "prepare" | "take" | "state">;
  readonly table: Pick<KernelPolicy, "replace" | "apply">;
  /** Called before the engine's changes are taken. */
  readonly onTake: () => void;
  /** Called at the end of each pass that succeeded, with what it realised. */
  readonly onRealised: (realised: Realised) => void;
  /** Called when the kernel holds everything that the engine was told until its last `take`. */
  readonly onHeld: () => void;
  /** Called with the differences that a comparison mended although the engine had reported no change. */
  readonly onDrift: (differences: readonly string[]) => void;
  readonly onPass?: (outcome: "success" | "failure", milliseconds: number) => void;
  readonly clock: Clock;
  readonly log: Pick<AgentLog, "info" | "error">;
}

interface Waiting {
  readonly told: number;
  readonly resolve: () => void;
}

/** Why the next pass compares the whole table. */
type Comparison = "start" | "failure" | "asked";

export class Passes {
  readonly #parts: PassParts;
  /** Events that the engine has heard, and how many of them the kernel holds. */
  #told = 0;
  #held = 0;
  #isOpen = false;
  #isStopped = false;
  #comparison: Comparison | undefined = "start";
  /** Counts who asked for a comparison: one that is under way may have read the table before. */
  #asked = 0;
  #running: Promise<void> | undefined;
  #waiting: Waiting[] = [];
  #pause: AbortController | undefined;
  #begunAt = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #problem: string | undefined;
  #next = Promise.withResolvers<void>();

  constructor(parts: PassParts) {
    this.#parts = parts;
  }

  /** Says whether the engine knows everything, so that passes are made. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Says whether the kernel holds everything that the engine was told. */
  get isSettled(): boolean {
    return this.#isOpen && this.#held === this.#told && this.#comparison === undefined;
  }

  /** Why the last pass failed; `undefined`: it did not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Begins to make passes, with a comparison of the whole table. */
  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#go();
  }

  /** Notes that the engine has heard something. */
  changed(): void {
    this.#told++;
    this.#go();
  }

  /** Compares the whole table soon: others may have changed it. */
  compare(): void {
    this.#asked++;
    this.#comparison ??= "asked";
    this.#go();
  }

  /** Compares the whole table, and waits until it is as it must be. @throws the signal's reason; TortieError `policy-failed` */
  async compared(signal: AbortSignal): Promise<void> {
    this.compare();
    while (this.#comparison !== undefined) {
      await this.ended(signal);
      if (this.#problem !== undefined) throw new TortieError("policy-failed", this.#problem);
    }
  }

  /** Waits until the kernel holds everything that the engine was told before. @throws the signal's reason */
  async settled(signal: AbortSignal): Promise<void> {
    if (this.isSettled) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = { told: this.#told, resolve };
    this.#waiting.push(waiting);
    // Does not wait for the window. What failed is tried again at its own time: it may well fail again.
    if (this.#failures === 0) this.#pause?.abort();
    try {
      await untilAborted(promise, signal);
    } finally {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
    }
  }

  /** Waits for the end of the next pass. @throws the signal's reason */
  async ended(signal: AbortSignal): Promise<void> {
    await untilAborted(this.#next.promise, signal);
  }

  /** Makes no further pass, and waits for the one under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#pause?.abort();
    await this.#running;
  }

  /** What failed is tried again at its own time, whoever waits. */
  get #isAwaited(): boolean {
    return this.#waiting.length > 0 && this.#failures === 0;
  }

  #go(): void {
    if (!this.#isOpen || this.#isStopped || this.isSettled || this.#running !== undefined) return;
    this.#running = this.#loop().finally(() => {
      this.#running = undefined;
      // What was told after the loop's last look.
      this.#go();
    });
  }

  async #loop(): Promise<void> {
    while (!this.#isStopped && !this.isSettled) {
      await this.#untilDue();
      if (!this.#isStopped) await this.#pass();
    }
  }

  async #untilDue(): Promise<void> {
    const { clock } = this.#parts;
    // Whoever tells of something and waits for it has begun to wait then.
    await Promise.resolve();
    if (!this.#isAwaited) {
      const pauseMs = this.#failures > 0 ? pauseAfter(this.#failures, AFTER_FAILURE, clock) : this.#begunAt + WINDOW_MS - clock.now();
      if (pauseMs > 0) {
        this.#pause = new AbortController();
        await clock.sleep(pauseMs, this.#pause.signal);
        this.#pause = undefined;
      }
    }
    if (!this.#isAwaited || clock.now() - this.#begunAt < BURST_MS) await this.#gather();
  }

  /** Takes along what is told in the same turn of the event loop, and in the next ones while each brings another ADD: one call begins in each. */
  async #gather(): Promise<void> {
    const { clock } = this.#parts;
    const end = clock.now() + BURST_MS;
    for (let before = -1; before < this.#waiting.length && this.#waiting.length < MOST_TOGETHER && clock.now() < end; ) {
      before = this.#waiting.length;
      await nextTurn();
    }
  }

  async #pass(): Promise<void> {
    const { engine, clock, log, onTake, onHeld, onPass } = this.#parts;
    const told = this.#told;
    this.#begunAt = clock.now();
    try {
      while (engine.prepare(SLICE)) await nextTurn();
      onTake();
      const change = engine.take();
      if (this.#comparison === undefined) await this.#apply(change);
      else await this.#compare(engine.state, isEmpty(change));
    } catch (error) {
      this.#failures++;
      this.#comparison = "failure";
      const problem = messageOf(error);
      if (problem !== this.#problem) log.error(`policy is not brought into the kernel, it is tried again: ${problem}`);
      this.#problem = problem;
      onPass?.("failure", clock.now() - this.#begunAt);
      return this.#tell();
    }
    if (this.#problem !== undefined) log.info("policy is in the kernel again");
    this.#failures = 0;
    this.#problem = undefined;
    this.#held = told;
    onHeld();
    onPass?.("success", clock.now() - this.#begunAt);
    for (const waiting of this.#waiting) if (waiting.told <= told) waiting.resolve();
    this.#tell();
  }

  async #apply(change: EngineChange): Promise<void> {
    const { table, onRealised } = this.#parts;
    if (isEmpty(change)) return;
    await table.apply(change);
    onRealised(change);
  }

  async #compare(state: PacketPolicy, isUnchanged: boolean): Promise<void> {
    const { table, onRealised, onDrift, log } = this.#parts;
    const [why, asked] = [this.#comparison, this.#asked];
    const differences = await table.replace(state);
    this.#comparison = asked === this.#asked ? undefined : "asked";
    if (differences.length === 0) return;
    onRealised("all");
    if (why === "asked" && isUnchanged) {
      for (const difference of differences.slice(0, MOST_LOGGED)) log.error(`policy in the kernel differed and was mended: ${difference}`);
      onDrift(differences);
    } else log.info("policy was compared with the kernel and mended", { differences: differences.length });
  }

  #tell(): void {
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers();
    resolve();
  }
}

function isEmpty({ endpoints, addresses, blocks }: PolicyChange): boolean {
  return endpoints.size === 0 && addresses.size === 0 && blocks === undefined;
}
