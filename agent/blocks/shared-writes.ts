/**
 * Group commit of the allocator's writes in one process (A§11.7): a lane for each block, in which one write is under way at a time. What
 * arrives meanwhile waits and becomes one compare-and-swap of the block when it has ended; an idle lane writes at once.
 *
 * The node's lock (I§1.8) is taken for each write. It only spares conflicts with other processes, so that a lane goes on without it when
 * it cannot be had soon.
 */
import type { FamilyRequest } from "../../ipam-plugin/allocator/auto-assign-family.ts";
import type { BlockRequest, Grant, Granted, SharedWrites } from "../../ipam-plugin/allocator/grant.ts";
import type { Operation, Try } from "../../ipam-plugin/allocator/operation.ts";
import type { BlockRelease, ReleasedIn } from "../../ipam-plugin/allocator/release-by-handle.ts";
import type { AssignedAddress } from "../../ipam-plugin/allocator/types.ts";
import type { Family } from "../../lib/addresses/address.ts";
import { AheadOfNeed } from "./ahead-of-need.ts";
import { type Part, PartOfGrant, PartOfRelease } from "./part.ts";
import { writeTogether } from "./write-together.ts";

/** Parts of one write: addresses of a common block. */
const MOST_PARTS = 64;

export interface SharedWritesOptions {
  /** The node's lock for one write; absent or `undefined`: the write goes on without. */
  readonly lock?: () => Promise<Disposable | undefined>;
  /** Told of every write of a block. @param outcome `conflict`: another process was first, and it is tried again */
  readonly onWrite?: (outcome: "written" | "conflict" | "failed", parts: number) => void;
}

export class LanedWrites implements SharedWrites {
  readonly #options: SharedWritesOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #turns = new Map<Family, Promise<void>>();
  readonly #ahead = new AheadOfNeed((family, work) => this.inTurn(family, work));

  constructor(options: SharedWritesOptions = {}) {
    this.#options = options;
  }

  async grant(operation: Operation, request: BlockRequest, grant: Grant): Promise<Try<Granted>> {
    const part = new PartOfGrant(operation, request, grant, await operation.reservations());
    this.#laneOf(request.cidr).join(part);
    return part.outcome;
  }

  release(operation: Operation, cidr: string, release: BlockRelease): Promise<Try<ReleasedIn>> {
    const part = new PartOfRelease(operation, release);
    this.#laneOf(cidr).join(part);
    return part.outcome;
  }

  async inTurn(family: Family, work: () => Promise<void>): Promise<boolean> {
    const before = this.#turns.get(family);
    if (before !== undefined) {
      await before;
      return false;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#turns.set(family, promise);
    try {
      await work();
      return true;
    } finally {
      this.#turns.delete(family);
      resolve();
    }
  }

  granted(operation: Operation, request: FamilyRequest, addresses: readonly AssignedAddress[]): void {
    this.#ahead.granted(operation, request, addresses);
  }

  #laneOf(cidr: string): Lane {
    let lane = this.#lanes.get(cidr);
    if (lane === undefined) {
      lane = new Lane(cidr, this.#options, () => this.#lanes.delete(cidr));
      this.#lanes.set(cidr, lane);
    }
    return lane;
  }
}

class Lane {
  readonly #cidr: string;
  readonly #options: SharedWritesOptions;
  readonly #onIdle: () => void;
  readonly #waiting: Part[] = [];
  #isWriting = false;
  /** The last write did not go through: what is remembered of the block is old. */
  #isDoubtful = false;

  constructor(cidr: string, options: SharedWritesOptions, onIdle: () => void) {
    this.#cidr = cidr;
    this.#options = options;
    this.#onIdle = onIdle;
  }

  join(part: Part): void {
    this.#waiting.push(part);
    if (!this.#isWriting) void this.#write();
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      const lock = await this.#lock();
      const parts = this.#waiting.splice(0, MOST_PARTS);
      try {
        const isWritten = await writeTogether(this.#cidr, parts, !this.#isDoubtful);
        this.#isDoubtful = !isWritten;
        this.#options.onWrite?.(isWritten ? "written" : "conflict", parts.length);
      } catch (error) {
        this.#isDoubtful = true;
        this.#options.onWrite?.("failed", parts.length);
        for (const part of parts) part.fail(error);
      } finally {
        lock?.[Symbol.dispose]();
      }
    }
    this.#isWriting = false;
    this.#onIdle();
  }

  /** A lock that cannot be had is no reason to fail. */
  async #lock(): Promise<Disposable | undefined> {
    try {
      return await this.#options.lock?.();
    } catch {
      return undefined;
    }
  }
}
