/**
 * Knows all endpoints of this node: which there are, under which names, and their life from the first record to the last (A§5, A§11.4).
 *
 * What an ADD or a DEL does to the kernel, the addresses and the store is not decided here. They report their progress by writing the
 * record; states, builds, names and files follow.
 */

import type { NewEndpoint } from "../../handover/record.ts";
import { type EndpointRecord, isCommitted, isDeleting } from "../../handover/record.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { Tasks } from "../../lib/resident/tasks.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { bootTimeMs } from "../../lib/system/libc.ts";
import { endsWithin, withLimit } from "../../lib/system/waiting.ts";
import { Endpoint, type EndpointParts } from "./endpoint.ts";
import { INITIAL_BUILD, type MendingParts, mendingLane, RESTORE_BUILD } from "./mending.ts";
import { isEnded } from "./status.ts";
import type { RecordStore } from "./store.ts";
import { EndpointTable, IdPool } from "./table.ts";

export interface EndpointManagerOptions extends Pick<MendingParts, "clock" | "mend" | "onBuilt"> {
  readonly store: RecordStore;
  readonly bootId: string;
  readonly maxEndpoints?: number;
  readonly controllers: Pick<Tasks, "update" | "remove">;
  readonly log: Pick<AgentLog, "error">;
}

/**
 * `ready`: committed, or changed since; `adopted`: others made it before the agent began; `removing`: a removal has begun;
 * `gone`: nothing is left but `gone/`.
 */
export type EndpointEvent = "ready" | "adopted" | "removing" | "gone";
/** What is known of an attachment that is there and was made by others. */
export type TakenOver = Omit<EndpointRecord, "id" | "phase" | "bootId" | "createdAt" | "updatedAt">;
type Listener = (event: EndpointEvent, endpoint: Endpoint) => void;

/** How long a removal waits for the endpoint's running build (A§5.10). */
const STOP_LIMIT_MS = 10_000;
/** How long an ADD waits for its first build (A§2.8). */
const FIRST_BUILD_LIMIT_MS = 45_000;

export class EndpointManager {
  readonly #options: EndpointManagerOptions;
  readonly #parts: EndpointParts;
  readonly #ids: IdPool;
  readonly #table = new EndpointTable();
  readonly #listeners = new Set<Listener>();
  readonly #retried = new Set<number>();
  #finish: Parameters<EndpointManager["finishBy"]>[0] | undefined;

  constructor(options: EndpointManagerOptions) {
    const { store, maxEndpoints: max, clock } = options;
    this.#options = options;
    this.#parts = { ...options, lane: mendingLane() };
    this.#ids = new IdPool({ max, now: () => clock.now(), hasDirectory: (id) => store.has(id) });
  }

  /**
   * Begins to finish what an earlier agent left half done: in line before any call that comes after this returns.
   * @param finish removes an attachment by its record. It is also called later, for what cannot be removed now
   */
  finishBy(finish: (record: EndpointRecord) => Promise<void>): void {
    this.#finish = finish;
    for (const { record } of this.#table.list()) if (!isCommitted(record)) this.#repeat(record);
  }

  onChange(listener: Listener): void {
    this.#listeners.add(listener);
  }

  get(id: number): Endpoint | undefined {
    return this.#table.get(id);
  }

  /** Lists endpoints in the order of their ids, without those whose ADD is under way: only operators see these (A§5.3). */
  endpoints(): readonly Endpoint[] {
    return this.all().filter(({ state }) => state !== "creating");
  }

  /** Lists all endpoints in the order of their ids. */
  all(): readonly Endpoint[] {
    return this.#table.list();
  }

  /** @throws TortieError `endpoint-name-invalid`, `endpoint-unknown`, `endpoint-ambiguous` */
  named(name: string): Endpoint {
    return this.#table.named(name);
  }

  withAddress(family: 4 | 6, address: string): readonly Endpoint[] {
    return this.#table.withAddress(family, address);
  }

  find(attachment: AttachmentId): EndpointRecord | undefined {
    return this.#table.ofAttachment(attachment)?.record;
  }

  list(): readonly EndpointRecord[] {
    return this.#table.list().map(({ record }) => record);
  }

  /** Takes an id and journals the attachment. @throws TortieError `endpoint-ids-exhausted` */
  async begin(attachment: NewEndpoint): Promise<EndpointRecord> {
    const { bootId, clock, store } = this.#options;
    const at = clock.date().toISOString();
    const fresh = { phase: "creating", bootId, addresses: [], createdAt: at, updatedAt: at } as const;
    const record = this.#ids.takeFor((id) => store.create({ id, ...fresh, ...attachment }));
    this.#add(record, false).transition("creating", "Attachment is being added");
    return record;
  }

  /**
   * Takes back an endpoint that an earlier agent left (A§7.3). Its record is on disk.
   * @throws Error when its id is in use
   */
  restore(record: EndpointRecord): Endpoint {
    this.#ids.reserve(record.id);
    return this.#enterRestored(record);
  }

  /** Keeps an id from being given for the time that a released one rests: that of a record that cannot be read. */
  rest(id: number): void {
    this.#ids.rest(id);
  }

  /** Makes an endpoint of an attachment that is there. Its record is durable when this returns. @throws TortieError `endpoint-ids-exhausted` */
  takeOver(found: TakenOver): Endpoint {
    const { bootId, clock, store } = this.#options;
    const at = clock.date().toISOString();
    const record = this.#ids.takeFor((id) => store.create({ ...found, id, phase: "ready", bootId, createdAt: at, updatedAt: at }));
    const endpoint = this.#enterRestored(record);
    endpoint.mending.trigger(RESTORE_BUILD);
    this.#tell("adopted", endpoint);
    return endpoint;
  }

  /**
   * Writes the record, durable when it returns. If its phase says so, the removal begins: builds end, names are given up (A§5.10 step 1).
   * A removal goes on without its journal: if this process is killed then, its successor finds the endpoint as it was. Its addresses are
   * proven again before its link is made again, and the runtime repeats a DEL that had no answer.
   * @throws TortieError `link-delete-timeout` while a build that does not end may still make the link: the removal is repeated until then
   */
  async write(record: EndpointRecord): Promise<EndpointRecord> {
    const endpoint = this.#endpointOf(record);
    if (!isDeleting(record)) return endpoint.journal(record);
    const written = endpoint.write(record);
    const error = await this.#beginRemoval(endpoint);
    if (error === undefined) return written;
    await this.retry(written, error);
    throw error;
  }

  /** Keeps the record in memory alone: what the API shows of an ADD under way. */
  keep(record: EndpointRecord): EndpointRecord {
    return this.#endpointOf(record).keep(record);
  }

  /**
   * Makes the endpoint visible and waits for its first build (A§11.4 step 7).
   * @throws what the build threw; the signal's reason; TortieError `build-timeout`
   */
  async build(record: EndpointRecord, signal: AbortSignal): Promise<EndpointRecord> {
    const endpoint = this.#endpointOf(record);
    if (endpoint.state === "creating") {
      endpoint.transition("waiting-for-identity", "Endpoint is known, its identity is awaited");
      this.#table.show(endpoint);
    }
    const late = new TortieError("build-timeout", `the first build was not done within ${FIRST_BUILD_LIMIT_MS / 1000} s`);
    await withLimit(this.#options.clock, { limitMs: FIRST_BUILD_LIMIT_MS, late, signal }, () => endpoint.mending.run(INITIAL_BUILD));
    return endpoint.record;
  }

  /** Passes the point of no return. */
  async commit(record: EndpointRecord): Promise<EndpointRecord> {
    const endpoint = this.#endpointOf(record);
    const committedAt = this.#options.clock.date().toISOString();
    const written = endpoint.journal({ ...record, phase: "ready", committedAt, committedBootMs: bootTimeMs() });
    if (endpoint.state === "creating") endpoint.transition("waiting-for-identity", "Endpoint is known");
    if (endpoint.state === "waiting-for-identity") endpoint.transition("ready", "Attachment is committed");
    this.#table.show(endpoint);
    this.#tell("ready", endpoint);
    return written;
  }

  /** Forgets an ADD that was taken back whole. */
  async discard(record: EndpointRecord): Promise<void> {
    const endpoint = this.#endpointOf(record);
    const error = await this.#beginRemoval(endpoint);
    if (error !== undefined) return this.retry(record, error);
    await this.#drop(endpoint, () => this.#options.store.discard(record.id));
  }

  /** Finishes a removal when link, addresses and record in the store are gone (A§5.10 steps 3, 6 to 8). */
  async remove(record: EndpointRecord): Promise<void> {
    const endpoint = this.#endpointOf(record);
    await this.#beginRemoval(endpoint);
    const { store, clock } = this.#options;
    if (endpoint.state !== "disconnected") endpoint.transition("disconnected", "Endpoint is removed");
    // Happens while its file is in its place.
    endpoint.log.flush();
    await this.#drop(endpoint, () => store.retire(record.id, clock.date().getTime()));
  }

  /** Forgets an endpoint whose files go; while the file system refuses that, its removal is repeated. */
  async #drop(endpoint: Endpoint, removeFiles: () => void): Promise<void> {
    try {
      removeFiles();
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      return this.retry(endpoint.record, error);
    }
    this.#forget(endpoint);
  }

  /** Repeats a removal that could not be finished, by controller `finish-delete-<id>`. */
  async retry(record: EndpointRecord, error: unknown): Promise<void> {
    this.#options.log.error(`endpoint ${record.id} is not removed yet, it is tried again: ${messageOf(error)}`);
    this.#table.get(record.id)?.note("Failure", "Other", `Removal failed: ${messageOf(error)}`);
    this.#repeat(record);
  }

  #enterRestored(record: EndpointRecord): Endpoint {
    const endpoint = this.#add(record, true);
    if (isCommitted(record)) {
      endpoint.transition("restoring", "Restoring endpoint from previous agent instance");
      this.#table.show(endpoint);
    } else endpoint.transition("creating", `Taking back what an earlier agent left in phase ${record.phase}`);
    return endpoint;
  }

  #add(record: EndpointRecord, isRestored: boolean): Endpoint {
    const endpoint = new Endpoint(record, this.#parts, isRestored);
    this.#table.add(endpoint);
    return endpoint;
  }

  /** @returns why the removal cannot go on */
  async #beginRemoval(endpoint: Endpoint): Promise<TortieError | undefined> {
    const { id, mending } = endpoint;
    const { clock, log } = this.#options;
    if (!isEnded(endpoint.state)) {
      endpoint.transition("disconnecting", "Endpoint is being removed");
      this.#table.hide(endpoint);
      this.#tell("removing", endpoint);
      const hasEnded = await endsWithin(clock, STOP_LIMIT_MS, mending.stop());
      if (!hasEnded) log.error(`endpoint ${id}: its build does not end, and is left behind`);
    }
    if (!mending.isAtLink) return undefined;
    return new TortieError("link-delete-timeout", `endpoint ${id}: a build is still at its link, which it may make again`);
  }

  /** Repeats the removal until it is done; the first try comes at once. */
  #repeat(record: EndpointRecord): void {
    const { id, attachment } = record;
    // There is no way to finish yet: `finishBy` will take over all of them.
    if (this.#finish === undefined || this.#retried.has(id)) return;
    this.#retried.add(id);
    const unfinished = () => {
      const known = this.find(attachment);
      return known?.id === id && !isCommitted(known) ? known : undefined;
    };
    this.#options.controllers.update(`finish-delete-${id}`, {
      run: async () => {
        const known = unfinished();
        if (known === undefined) return;
        await this.#finish?.(known);
        // `discard` leaves an endpoint whose link is being mended to this controller, without an error.
        if (unfinished() !== undefined) throw new Error(`endpoint ${id} is still there`);
      },
    });
  }

  #forget(endpoint: Endpoint): void {
    const { id } = endpoint;
    this.#table.remove(endpoint);
    this.#ids.release(id);
    // Does not wait: it may be the one that runs now.
    if (this.#retried.delete(id)) void this.#options.controllers.remove(`finish-delete-${id}`);
    this.#tell("gone", endpoint);
  }

  #tell(event: EndpointEvent, endpoint: Endpoint): void {
    for (const listener of this.#listeners) {
      try {
        listener(event, endpoint);
      } catch (error) {
        this.#options.log.error(`endpoint ${endpoint.id}: ${messageOf(error)}`);
      }
    }
  }

  #endpointOf({ id }: EndpointRecord): Endpoint {
    const endpoint = this.#table.get(id);
    if (endpoint === undefined) throw new TortieError("internal", `there is no endpoint ${id}`);
    return endpoint;
  }
}
