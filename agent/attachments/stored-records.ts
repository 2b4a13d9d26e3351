/**
 * The attachments' records, kept in memory and on disk. What an earlier agent of this boot left half done is found when the store is
 * read, and finished; what could not be removed is tried again, after 1 s × 2 up to 1 min, until it is.
 */
import { messageOf } from "../../lib/errors/errors.ts";
import { IdPool, type IdPoolOptions } from "../endpoints/ids.ts";
import { type Attachment, attachmentKey, type EndpointRecord, isCommitted } from "../endpoints/record/endpoint-record.ts";
import type { RecordStore } from "../endpoints/record/record-store.ts";
import type { AttachmentRecords, NewAttachment } from "./records.ts";

export interface StoredRecordsOptions {
  readonly store: RecordStore;
  readonly bootId: string;
  readonly maxEndpoints?: number;
  readonly log: { info(message: string): void; error(message: string): void };
  readonly now?: () => number;
}

/** Removes an attachment by its record (AttachmentService.finish). */
type Finish = (record: EndpointRecord) => Promise<void>;

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

export class StoredRecords implements AttachmentRecords {
  readonly #options: StoredRecordsOptions;
  readonly #now: () => number;
  readonly #ids: IdPool;
  readonly #records = new Map<string, EndpointRecord>();
  /** Pause before the next try of what could not be removed, by id. */
  readonly #pauses = new Map<number, number>();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  #finish: Finish = async () => {};

  constructor(options: StoredRecordsOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    const { directories } = options.store;
    const ids: IdPoolOptions = { now: this.#now, hasDirectory: (id) => directories.list().some((found) => found.id === id) };
    this.#ids = new IdPool({ ...ids, ...(options.maxEndpoints === undefined ? {} : { max: options.maxEndpoints }) });
    this.#readAll();
  }

  /**
   * Begins to finish what an earlier agent left. It is in line before any call that comes after this returns.
   * @param finish removes an attachment by its record; also called later, for what cannot be removed now
   */
  finishBy(finish: Finish): void {
    this.#finish = finish;
    for (const record of this.#records.values()) if (!isCommitted(record)) this.#try(record);
  }

  find(attachment: Attachment): EndpointRecord | undefined {
    return this.#records.get(attachmentKey(attachment));
  }

  list(): readonly EndpointRecord[] {
    return [...this.#records.values()];
  }

  async begin(attachment: NewAttachment): Promise<EndpointRecord> {
    const at = this.#time();
    const id = this.#ids.take();
    const { bootId, store } = this.#options;
    const record: EndpointRecord = { id, phase: "creating", bootId, addresses: [], createdAt: at, updatedAt: at, ...attachment };
    try {
      store.create(record);
    } catch (error) {
      this.#ids.release(id);
      throw error;
    }
    return this.#keep(record);
  }

  async write(record: EndpointRecord): Promise<EndpointRecord> {
    const written = { ...record, updatedAt: this.#time() };
    this.#options.store.write(written);
    return this.#keep(written);
  }

  async build(record: EndpointRecord): Promise<EndpointRecord> {
    return record;
  }

  async commit(record: EndpointRecord): Promise<EndpointRecord> {
    return this.write({ ...record, committedAt: this.#time() });
  }

  async discard(record: EndpointRecord): Promise<void> {
    this.#options.store.discard(record.id);
    this.#forget(record);
  }

  async remove(record: EndpointRecord): Promise<void> {
    this.#options.store.directories.retire(record.id, this.#now());
    this.#forget(record);
  }

  async retry(record: EndpointRecord, error: unknown): Promise<void> {
    const pause = this.#pauses.get(record.id) ?? FIRST_PAUSE_MS;
    this.#pauses.set(record.id, Math.min(pause * 2, LONGEST_PAUSE_MS));
    this.#options.log.error(`endpoint ${record.id} is not removed yet, tried again in ${pause / 1_000} s: ${messageOf(error)}`);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#try(record);
    }, pause);
    this.#timers.add(timer);
  }

  /** Nothing is tried any more. */
  [Symbol.dispose](): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }

  #try(record: EndpointRecord): void {
    const { log } = this.#options;
    // A failure of the removal is repeated by itself (retry); only a record that cannot be made a removal of ends here.
    this.#finish(record).catch((error: unknown) => log.error(`endpoint ${record.id}: ${messageOf(error)}`));
  }

  #readAll(): void {
    const { store, log } = this.#options;
    for (const found of store.readAll()) {
      if (found.kind === "empty") store.discard(found.id);
      if (found.kind === "unreadable")
        log.error(`endpoint ${found.id}: ${found.reason}: kept at ${store.directories.setAsideBad(found.id, this.#now())}`);
      if (found.kind !== "record") continue;
      this.#ids.reserve(found.id);
      this.#keep(found.record);
    }
  }

  #keep(record: EndpointRecord): EndpointRecord {
    this.#records.set(attachmentKey(record.attachment), record);
    return record;
  }

  #forget({ id, attachment }: EndpointRecord): void {
    this.#records.delete(attachmentKey(attachment));
    this.#pauses.delete(id);
    this.#ids.release(id);
  }

  #time(): string {
    return new Date(this.#now()).toISOString();
  }
}
