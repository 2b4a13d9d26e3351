/** Makes what plugins did while the agent was away the agent's: DELs that wait for it, and attachments that it takes over (A§11.5, A§11.6). */
import { NEVER } from "../../lib/system/waiting.ts";
import { DeleteQueue, type Moment } from "../delete-queue/delete-queue.ts";
import { keyOf } from "../delete-queue/queue-entry.ts";
import { QueueFiles } from "../delete-queue/queue-files.ts";
import { Adoption } from "../direct-records/adopt.ts";
import { DirectRecords } from "../direct-records/direct-records.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import type { Attachment, EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import { attachmentKey } from "../run-directory/attachment-key.ts";
import type { AttachmentLocks } from "../run-directory/attachment-locks.ts";
import type { RunDirectory } from "../run-directory/run-directory.ts";
import type { AttachmentService, CallContext } from "./attachment-service.ts";

export interface AgentAwayParts {
  readonly run: RunDirectory;
  readonly locks: AttachmentLocks;
  readonly manager: EndpointManager;
  /** Serves a DEL by the body of its call. */
  readonly remove: (body: unknown, call: CallContext) => ReturnType<AttachmentService["serve"]>;
  readonly log: { info(message: string): void; error(message: string): void };
}

export class AgentAway {
  readonly #adoption: Adoption;
  readonly #deletes: DeleteQueue;

  constructor({ run, locks, manager, remove, log }: AgentAwayParts) {
    this.#adoption = new Adoption({ records: new DirectRecords(run.direct), locks, adopter: manager, log });
    this.#deletes = new DeleteQueue({
      files: new QueueFiles(run.deleteQueue),
      // A queued DEL has no caller that could give up.
      serve: (body) => remove(body, { peer: { pid: process.pid }, signal: NEVER }),
      addedAt: (attachment) => addedAt(manager.find(attachment)),
      log,
    });
  }

  /** DELs that wait. */
  get queueLength(): number {
    return this.#deletes.size;
  }

  takeOver(attachment: Attachment, signal: AbortSignal): Promise<void> {
    return this.#adoption.of(attachment, signal);
  }

  takeOverLocked(attachment: Attachment): Promise<void> {
    return this.#adoption.locked(attachment);
  }

  takeOverAll(): Promise<void> {
    return this.#adoption.all();
  }

  queuedDelete(attachment: Attachment): Promise<void> {
    return this.#deletes.carryOutFor(attachment);
  }

  /** For as long as the agent lives: a plugin may have decided to do without it just before it was there. */
  start(): void {
    this.#adoption.start();
    this.#deletes.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#adoption.stop(), this.#deletes.stop()]);
  }
}

/**
 * As `HoldAttachment` says: the attachment's lock, so that no plugin works on it without the agent.
 * @returns `undefined` when a DEL of it waits in the queue
 */
export async function holdAttachment(
  locks: Pick<AttachmentLocks, "take">,
  queue: QueueFiles,
  attachment: Attachment,
  signal: AbortSignal,
): Promise<Disposable | undefined> {
  const { network, containerId, ifname: interfaceName } = attachment;
  const lock = await locks.take(attachmentKey({ network, containerId, interfaceName }), { signal });
  if (queue.find(keyOf(attachment)) === undefined) return lock;
  lock[Symbol.dispose]();
  return undefined;
}

function addedAt({ committedAt, committedBootMs }: Partial<EndpointRecord> = {}): Moment | undefined {
  return committedAt === undefined ? undefined : { wallMs: Date.parse(committedAt), bootMs: committedBootMs };
}
