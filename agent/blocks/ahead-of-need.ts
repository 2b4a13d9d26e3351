/**
 * When the next block of this node is claimed ahead of need (A§11.7): after a grant that has left few addresses, off the way of the ADD
 * that had it, and in the turn of ADDs that look for another block, so that these find the one that was claimed.
 */
import type { FamilyRequest } from "../../ipam-plugin/allocator/auto-assign-family.ts";
import type { SharedWrites } from "../../ipam-plugin/allocator/grant.ts";
import type { Operation } from "../../ipam-plugin/allocator/operation.ts";
import type { AssignedAddress } from "../../ipam-plugin/allocator/types.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { type BackOff, pauseAfter } from "../../lib/system/clock.ts";
import { claimAhead, isRunningLow } from "./claim-ahead.ts";

/**
 * After claims in a row that were refused or failed: the limit of blocks, a full pool or a missing right do not go away by asking at every
 * ADD. Each look may list all blocks of the cluster, and every node does so, hence up to an hour.
 */
const PAUSES: BackOff = { base: 60_000, longest: 3_600_000 };

/** With the jitter. */
const MOST_PAUSE_MS = PAUSES.longest * 1.2;

interface Pause {
  /** Milliseconds since 1970. */
  readonly until: number;
  /** Claims in a row that were refused or failed. */
  readonly failures: number;
}

export class AheadOfNeed {
  readonly #inTurn: SharedWrites["inTurn"];
  /** Kinds of request that are looked after just now. */
  readonly #busy = new Set<string>();
  /** Kinds of request for which nothing is tried for a time. */
  readonly #pauses = new Map<string, Pause>();

  constructor(inTurn: SharedWrites["inTurn"]) {
    this.#inTurn = inTurn;
  }

  /** Returns at once; what stands in the way of a claim is logged, and left to the ADD that needs the block. */
  granted(operation: Operation, request: FamilyRequest, addresses: readonly AssignedAddress[]): void {
    const kind = kindOf(request);
    const last = addresses.findLast(({ isReused }) => !isReused);
    if (last === undefined || this.#busy.has(kind) || this.#isPausing(operation, kind)) return;
    this.#busy.add(kind);
    void this.#claim(operation, request, last.block, kind).finally(() => this.#busy.delete(kind));
  }

  async #claim(operation: Operation, request: FamilyRequest, cidr: string, kind: string): Promise<void> {
    try {
      if (!(await isRunningLow(operation, request, cidr))) return;
      await this.#inTurn(request.family, async () => {
        // Of its own: it must not end with the ADD, and knows nothing of what that has read.
        const outcome = await claimAhead(operation.withoutSignal(), request);
        if (outcome === "none") this.#pause(operation, kind);
        else this.#pauses.delete(kind);
      });
    } catch (error) {
      this.#pause(operation, kind);
      operation.log(`no block was claimed ahead of need: ${messageOf(error)}`);
    }
  }

  #isPausing({ clock }: Operation, kind: string): boolean {
    const left = (this.#pauses.get(kind)?.until ?? 0) - clock.nowMs();
    // A clock that was set back must not make a pause longer than any is.
    return left > 0 && left <= MOST_PAUSE_MS;
  }

  #pause({ clock, random }: Operation, kind: string): void {
    const now = clock.nowMs();
    for (const [other, { until }] of this.#pauses) if (until + MOST_PAUSE_MS <= now) this.#pauses.delete(other);
    const failures = (this.#pauses.get(kind)?.failures ?? 0) + 1;
    this.#pauses.set(kind, { until: now + pauseAfter(failures, PAUSES, { random }), failures });
  }
}

/** Requests of one kind take their addresses from the same blocks. */
function kindOf({ family, owner, requestedPools, use }: FamilyRequest): string {
  return JSON.stringify([family, owner, requestedPools, use]);
}
