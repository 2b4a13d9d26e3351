/**
 * How the agent takes over what plugins attached without it (A§11.6): every record at its start, and later each one that appears, by a
 * plugin that had begun before the agent was there.
 */
import { messageOf } from "../../lib/errors/errors.ts";
import { DirectoryEvents } from "../../lib/system/directory-events.ts";
import type { Attachment, EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import { attachmentKey } from "../run-directory/attachment-key.ts";
import type { AttachmentLocks } from "../run-directory/attachment-locks.ts";
import type { DirectRecords } from "./direct-records.ts";

/** What is under a lock is looked at again. */
const LOOK_EVERY_MS = 5_000;

/** The agent's endpoints. */
interface Adopter {
  /**
   * Makes the attachment an endpoint, or replaces what is known of it. What an ADD left whose plugin was killed is removed as the agent
   * removes its own. Durable when it returns.
   */
  adopt(record: EndpointRecord): Promise<void>;
}

export interface AdoptionParts {
  readonly records: DirectRecords;
  readonly locks: Pick<AttachmentLocks, "take" | "tryTake">;
  readonly adopter: Adopter;
  readonly log: { info(message: string): void; error(message: string): void };
}

export class Adoption {
  readonly #parts: AdoptionParts;
  readonly #events: DirectoryEvents;
  #isStopped = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(parts: AdoptionParts) {
    this.#parts = parts;
    this.#events = new DirectoryEvents(parts.records.directory);
  }

  /** Takes over every attachment that no plugin works on just now. */
  async all(): Promise<void> {
    const { records, locks, log } = this.#parts;
    const found = records.list();
    for (const { path, reason } of found.unreadable) log.error(`a record of direct mode cannot be read and is kept as ${path}: ${reason}`);
    for (const { attachment } of found.records) {
      using lock = locks.tryTake(keyOf(attachment));
      if (lock !== undefined) await this.#adopt(attachment);
    }
  }

  /**
   * Takes over one attachment, before the agent serves a call of it; waits for a plugin that works on it.
   * @throws TortieError `attachment-locked`; the signal's reason
   */
  async of(attachment: Attachment, signal: AbortSignal): Promise<void> {
    if (!this.#parts.records.has(attachment)) return;
    using _ = await this.#parts.locks.take(keyOf(attachment), { signal });
    await this.#adopt(attachment);
  }

  /** The same for who holds the attachment's lock. */
  async locked(attachment: Attachment): Promise<void> {
    if (this.#parts.records.has(attachment)) await this.#adopt(attachment);
  }

  /** Begins to watch, for life. */
  start(): void {
    this.#parts.records.makeDirectory();
    this.#loop = this.#watch();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#events.close();
    await this.#loop;
  }

  async #watch(): Promise<void> {
    while (!this.#isStopped) {
      // Before the look: what appears between the two is seen by one of them.
      this.#events.watch();
      try {
        await this.all();
      } catch (error) {
        this.#parts.log.error(`the records of direct mode cannot be read: ${messageOf(error)}`);
      }
      if (!this.#isStopped) await this.#events.next(LOOK_EVERY_MS);
    }
  }

  /** Under the attachment's lock: its record may have been finished or removed since the look without it. */
  async #adopt(attachment: Attachment): Promise<void> {
    const { records, adopter, log } = this.#parts;
    try {
      const direct = records.read(attachment);
      if (direct === undefined) return;
      await adopter.adopt(direct);
      records.remove(attachment);
      log.info(`container ${attachment.containerId}, attached in direct mode, is taken over`);
    } catch (error) {
      log.error(`container ${attachment.containerId}, attached in direct mode, cannot be taken over: ${messageOf(error)}`);
    }
  }
}

function keyOf({ network, containerId, ifname }: Attachment): string {
  return attachmentKey({ network, containerId, interfaceName: ifname });
}
