/**
 * Runs one operation an attachment at a time (A§11.4): ADD waits for DEL, CHECK for either, and a DEL ends the ADDs before it and waits
 * until what they had made is taken back. Equal ADDs are one operation with several callers, and so are equal DELs.
 *
 * A caller that goes away leaves its operation. An ADD or CHECK without any caller is ended; a DEL is carried out all the same.
 */
import { TortieError } from "../../lib/errors/errors.ts";

export type TurnKind = "add" | "del" | "check";

export interface Turn {
  /** Of the attachment (agent/endpoints, attachmentKey). */
  readonly key: string;
  readonly kind: TurnKind;
  /** Equal calls have equal ones. */
  readonly digest: string;
  /** Aborts when the caller wants no answer any more. */
  readonly caller: AbortSignal;
}

/** @param signal aborts when the operation shall be taken back */
export type Work<T> = (signal: AbortSignal) => Promise<T>;

interface Operation<T> {
  readonly kind: TurnKind;
  readonly digest: string;
  readonly controller: AbortController;
  readonly outcome: Promise<T>;
  /** Never fails. */
  readonly ended: Promise<void>;
  callers: number;
}

export class AttachmentTurns<T> {
  /** For each attachment that something is done with now, in the order of arrival; the first one runs. */
  readonly #lines = new Map<string, Operation<T>[]>();

  /** @throws the operation's error; before that, the reason of a caller that went away */
  async run(turn: Turn, work: Work<T>): Promise<T> {
    const line = this.#lines.get(turn.key) ?? [];
    const last = line.at(-1);
    const operation = last !== undefined && isJoined(last, turn) ? last : this.#enqueue(turn, line, work);
    return await outcomeFor(turn.caller, operation);
  }

  /** Says whether something is done with the attachment now. */
  isBusy(key: string): boolean {
    return this.#lines.has(key);
  }

  /** Keys of the attachments that something is done with now. */
  busy(): readonly string[] {
    return [...this.#lines.keys()];
  }

  #enqueue({ key, kind, digest }: Turn, line: Operation<T>[], work: Work<T>): Operation<T> {
    if (kind === "del") endAdds(line);
    const previous = line.at(-1)?.ended;
    const controller = new AbortController();
    const { signal } = controller;
    const outcome = (async () => {
      if (previous !== undefined) await previous;
      // An ADD that was ended while it waited has made nothing.
      signal.throwIfAborted();
      return await work(signal);
    })();
    const leave = () => this.#leave(key, operation);
    const operation: Operation<T> = { kind, digest, controller, outcome, ended: outcome.then(leave, leave), callers: 0 };
    line.push(operation);
    this.#lines.set(key, line);
    return operation;
  }

  #leave(key: string, operation: Operation<T>): void {
    const line = this.#lines.get(key) ?? [];
    line.splice(line.indexOf(operation), 1);
    if (line.length === 0) this.#lines.delete(key);
  }
}

function isJoined({ kind, digest, controller }: Operation<unknown>, turn: Turn): boolean {
  return kind === turn.kind && kind !== "check" && digest === turn.digest && !controller.signal.aborted;
}

function endAdds(line: readonly Operation<unknown>[]): void {
  for (const { kind, controller } of line) {
    if (kind !== "add") continue;
    controller.abort(new TortieError("attachment-deleted", "the attachment was deleted while it was being added"));
  }
}

/** Waits for the operation's outcome, or for what takes the caller away before. */
async function outcomeFor<T>(caller: AbortSignal, operation: Operation<T>): Promise<T> {
  operation.callers++;
  const { promise: gone, reject } = Promise.withResolvers<never>();
  const leave = () => {
    const reason = reasonOf(caller);
    operation.callers--;
    if (operation.callers === 0 && operation.kind !== "del") operation.controller.abort(reason);
    reject(reason);
  };
  if (caller.aborted) leave();
  else caller.addEventListener("abort", leave, { once: true });
  try {
    return await Promise.race([operation.outcome, gone]);
  } finally {
    caller.removeEventListener("abort", leave);
  }
}

function reasonOf({ reason }: AbortSignal): TortieError {
  return reason instanceof TortieError ? reason : new TortieError("caller-gone", "the caller went away before the attachment was there");
}
