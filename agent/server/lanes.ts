/**
 * How many calls of plugins run and wait (A§2.9): ADD and DEL are never refused for load but when 4096 of their lane wait already, and
 * neither lane waits for the other. First come, first served.
 */

import type { PreparedCall } from "../../handover/call.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { AttachmentAnswer, AttachmentCallContext, AttachmentService } from "./attachment-service.ts";

/** As many as share a write of a block, and some that are not at it yet (A§11.7). */
export const RUNNING = 100;
export const WAITING = 4096;
/** Reads of operators at once. */
export const READS = 64;

interface Place {
  enter(): void;
}

export class Lane {
  readonly #limits: { readonly running: number; readonly waiting: number };
  #running = 0;
  readonly #waiting = new Set<Place>();

  constructor(limits = { running: RUNNING, waiting: WAITING }) {
    this.#limits = limits;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get running(): number {
    return this.#running;
  }

  /** @throws TortieError `agent-busy` when too many wait; the signal's reason when it aborts before the call's turn */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#limits.running) this.#running++;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  /** A call that hands its place to the next one does not free it. */
  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#running--;
      return;
    }
    this.#waiting.delete(next);
    next.enter();
  }

  #turn(signal: AbortSignal): Promise<void> {
    if (this.#waiting.size >= this.#limits.waiting) {
      throw new TortieError("agent-busy", `${this.#waiting.size} calls wait already, and no more may`);
    }
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const gone = () => {
        this.#waiting.delete(place);
        reject(signal.reason);
      };
      const place: Place = {
        enter: () => {
          signal.removeEventListener("abort", gone);
          resolve();
        },
      };
      this.#waiting.add(place);
      signal.addEventListener("abort", gone, { once: true });
    });
  }
}

/**
 * Reads of others than root, whose probes must not fail over them: more than these at once are told to come again, and each turn of the event loop begins one, so that calls of plugins
 * that have come in meanwhile are taken up between two of them.
 */
export class Reads {
  #running = 0;
  #turn: Promise<void> = Promise.resolve();

  /** @throws TortieError `reads-limited` */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= READS) throw new TortieError("reads-limited", `${this.#running} reads are under way already`);
    this.#running++;
    this.#turn = this.#turn.then(nextTurn);
    try {
      await this.#turn;
      return await work();
    } finally {
      this.#running--;
    }
  }
}

/** Behind what the kernel has reported until now: Node and Bun call immediates after they have looked for input. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A service whose calls keep to their lanes. A DEL of an unknown attachment is done at once. */
export class LanedAttachments implements AttachmentService {
  readonly #service: AttachmentService;
  readonly #adds = new Lane();
  readonly #deletes = new Lane();
  readonly #others = new Lane();

  constructor(service: AttachmentService) {
    this.#service = service;
  }

  isKnown(attachment: AttachmentId): boolean {
    return this.#service.isKnown(attachment);
  }

  serve(call: PreparedCall, context: AttachmentCallContext): Promise<AttachmentAnswer> {
    const serve = () => this.#service.serve(call, context);
    if (call.command === "ADD") return this.#adds.run(context.signal, serve);
    if (call.command !== "DEL") return this.#others.run(context.signal, serve);
    return this.#service.isKnown(call.attachment) ? this.#deletes.run(context.signal, serve) : serve();
  }
}
