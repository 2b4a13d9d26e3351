/** Defines what one operation does in a write of a block, which it may share with others (block-write.ts). */

import type { Datastore } from "../../lib/datastore/datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import type { Clock, Try } from "./types.ts";

/** Has what a write asks of an operation that takes part in it (operation.ts). */
export interface Writing {
  readonly datastore: Datastore;
  readonly clock: Clock;
  normalised(block: Block): Promise<Block>;
  cooldownForRelease(): Promise<number>;
}

/** `write`: it takes part. `nothing`: it has its answer without a write. `fresh`: the answer must not rest on a block that may be old. */
export type Choice = "write" | "nothing" | "fresh";

/** Has what a part can choose from. */
export interface Choosing {
  /** The block as it was read; absent where it does not exist. */
  readonly stored: Block | undefined;
  /** The same with cooled ordinals free. */
  readonly block: Block | undefined;
  /** Ordinals that other parts of the write take. */
  readonly chosen: ReadonlySet<number>;
  readonly mayBeOld: boolean;
}

export interface FailedWrite {
  readonly error: unknown;
  /** The block as it is now, which a part that grants needs to know. */
  readonly now: Block | undefined;
  /** The block as it would be, had it been written. */
  readonly changed: Block;
}

/** Takes its steps in their order: choose, prepare, apply, then done or failed. */
export abstract class BlockPart<T> {
  abstract readonly kind: "grant" | "release";
  readonly operation: Writing;
  readonly cidr: string;
  /** Those that it has chosen. */
  ordinals: readonly number[] = [];
  readonly #answered = Promise.withResolvers<Try<T>>();

  constructor(operation: Writing, cidr: string) {
    this.operation = operation;
    this.cidr = cidr;
  }

  get outcome(): Promise<Try<T>> {
    return this.#answered.promise;
  }

  answer(outcome: Try<T>): void {
    this.#answered.resolve(outcome);
  }

  /** Fails a part of which nothing was prepared, or all has been undone. */
  fail(error: unknown): void {
    this.#answered.reject(error);
  }

  abstract choose(from: Choosing): Choice;
  /** @returns false: it takes no part after all, and has its answer */
  abstract prepare(): Promise<boolean>;
  abstract apply(block: Block, nowMs: number): Block;
  abstract done(written: Block): void;
  abstract failed(write: FailedWrite): Promise<void>;
}
