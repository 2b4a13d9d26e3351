/** What plugins did while the agent was away, put together: DELs that wait for it, and attachments that it takes over (A§11.5, A§11.6). */
import { NEVER } from "../lib/system/waiting.ts";
import type { AttachmentService } from "./attachments/attachment-service.ts";
import { DeleteQueue, type Moment } from "./delete-queue/delete-queue.ts";
import { QueueFiles } from "./delete-queue/queue-files.ts";
import { Adoption } from "./direct-records/adopt.ts";
import { DirectRecords } from "./direct-records/direct-records.ts";
import type { EndpointManager } from "./endpoints/manager.ts";
import type { Attachment, EndpointRecord } from "./endpoints/record/endpoint-record.ts";
import { attachmentKey } from "./run-directory/attachment-key.ts";
import type { AttachmentLocks } from "./run-directory/attachment-locks.ts";
import type { RunDirectory } from "./run-directory/run-directory.ts";

export interface WithoutAgentParts {
  readonly run: RunDirectory;
  readonly locks: AttachmentLocks;
  readonly manager: EndpointManager;
  readonly attachments: AttachmentService;
  readonly log: { info(message: string): void; error(message: string): void };
}

/** A queued DEL has no caller that could give up. */

export class WithoutAgent {
  readonly #adoption: Adoption;
  readonly #deletes: DeleteQueue;
  readonly #locks: AttachmentLocks;

  constructor({ run, locks, manager, attachments, log }: WithoutAgentParts) {
    this.#locks = locks;
    this.#adoption = new Adoption({ records: new DirectRecords(run.direct), locks, adopter: manager, log });
    this.#deletes = new DeleteQueue({
      files: new QueueFiles(run.deleteQueue),
      serve: (body) => attachments.serve("del", body, { peer: { pid: process.pid }, signal: NEVER }),
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

  /** As `HoldAttachment` says. */
  async hold(attachment: Attachment, signal: AbortSignal): Promise<Disposable | undefined> {
    const { network, containerId, ifname: interfaceName } = attachment;
    const lock = await this.#locks.take(attachmentKey({ network, containerId, interfaceName }), { signal });
    if (!this.#deletes.has(attachment)) return lock;
    lock[Symbol.dispose]();
    return undefined;
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

function addedAt({ committedAt, committedBootMs }: Partial<EndpointRecord> = {}): Moment | undefined {
  return committedAt === undefined ? undefined : { wallMs: Date.parse(committedAt), bootMs: committedBootMs };
}
