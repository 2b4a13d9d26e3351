/**
 * Limits how many calls of plugins run and wait (A§2.9): ADD and DEL are never refused for load but when 4096 of their lane wait already, and
 * neither lane waits for the other. First come, first served.
 */

import type { PreparedCall } from "../../handover/call.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { Lane } from "../../lib/system/lane.ts";
import { nextTurn } from "../../lib/system/waiting.ts";
import type { AttachmentService, CallContext } from "../attachments/attachment-service.ts";

/** What calls of plugins are handed to (A§11.3). */
export interface CallService extends Pick<AttachmentService, "isKnown"> {
  serve(call: PreparedCall, context: CallContext): ReturnType<AttachmentService["serve"]>;
}

/** As many as share a write of a block, and some that are not at it yet (A§11.7). */
export const RUNNING = 100;
export const WAITING = 4096;
/** Reads of operators at once. */
export const READS = 64;

/**
 * Reads of others than root, whose probes must not fail over them. More than these at once have to come again, and each turn of the event
 * loop begins one, so that calls of plugins that have come in meanwhile are taken up between two of them.
 */
export class Reads {
  #running = 0;
  readonly #starts = new Starts();

  /** @throws TortieError `reads-limited` */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= READS) throw new TortieError("reads-limited", `${this.#running} reads are under way already`);
    this.#running++;
    try {
      await this.#starts.next();
      return await work();
    } finally {
      this.#running--;
    }
  }
}

/** Keeps calls of a service to their lanes, but does a DEL of an unknown attachment at once. */
export class LanedAttachments implements CallService {
  readonly #service: CallService;
  readonly #adds = new Lane({ running: RUNNING, waiting: WAITING });
  readonly #deletes = new Lane({ running: RUNNING, waiting: WAITING });
  readonly #others = new Lane({ running: RUNNING, waiting: WAITING });

  constructor(service: CallService) {
    this.#service = service;
  }

  isKnown(attachment: AttachmentId): boolean {
    return this.#service.isKnown(attachment);
  }

  serve(call: PreparedCall, context: CallContext): ReturnType<CallService["serve"]> {
    const serve = () => this.#service.serve(call, context);
    if (call.command === "ADD") return this.#adds.run(context.signal, serve);
    if (call.command !== "DEL") return this.#others.run(context.signal, serve);
    return this.#service.isKnown(call.attachment) ? this.#deletes.run(context.signal, serve) : serve();
  }
}

/**
 * Calls begin one in each turn of the event loop. On a local store a call waits for nothing, so that those which came together would
 * otherwise run one after the other before anything else: no timer, no answer to a probe, no end of a connection.
 */
export class Starts {
  #last = Promise.resolve();

  /**
   * Resolves in a turn of the event loop that no other caller has, behind what the kernel has reported until now: Node and Bun call
   * immediates after they have looked for input.
   */
  next(): Promise<void> {
    this.#last = this.#last.then(nextTurn);
    return this.#last;
  }
}
