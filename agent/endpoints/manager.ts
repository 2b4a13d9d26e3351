/**
 * All endpoints of this node: which there are, under which names, and their life from the first record to the last (A§5, A§11.4).
 *
 * What an ADD or a DEL does to the kernel, the addresses and the store is not decided here. They report their progress by writing the
 * record; states, builds, names and files follow.
 */

import { type EndpointRecord, isCommitted, isDeleting, isUnfinishedAdd } from "../../handover/record.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { bootTimeMs } from "../../lib/system/boot-time.ts";
import { endsWithin, failureOf, withLimit } from "../../lib/system/waiting.ts";
import { buildEndpoint } from "./build/build-endpoint.ts";
import type { Trigger } from "./build/builds.ts";
import { KernelWork } from "./build/kernel-work.ts";
import { Permits } from "./build/permits.ts";
import { Recovery } from "./build/recovery.ts";
import { NO_SEAMS, type Seams } from "./build/seams.ts";
import { Endpoint } from "./endpoint.ts";
import { IdPool } from "./ids.ts";
import type { EndpointManagerOptions, NewEndpoint } from "./options.ts";
import { isEnded } from "./state/states.ts";
import { EndpointTable } from "./table.ts";

/** `ready`: committed, or changed since; `removing`: a removal has begun; `gone`: nothing is left but `gone/`. */
export type EndpointEvent = "ready" | "removing" | "gone";
type Listener = (event: EndpointEvent, endpoint: Endpoint) => void;

/** Removes an attachment by its record. */
type Finish = (record: EndpointRecord) => Promise<void>;

/** How long a removal waits for the endpoint's running build (A§5.10). */
const STOP_LIMIT_MS = 10_000;
/** How long an ADD waits for its first build (A§2.8). */
const FIRST_BUILD_LIMIT_MS = 45_000;
/** The links have been made a moment ago. */
const INITIAL_BUILD = { level: 3, reason: "Initial build on endpoint creation", isAwaited: true, isKernelFresh: true } as const;

/** Ends a restore: whatever else was asked for meanwhile joins it. */
export const RESTORE_BUILD = { level: 3, reason: "syncing state to host", isRestore: true } as const;

export class EndpointManager {
  readonly #options: EndpointManagerOptions;
  readonly #seams: Seams;
  readonly #permits: Permits;
  readonly #ids: IdPool;
  readonly #table = new EndpointTable();
  readonly #listeners = new Set<Listener>();
  readonly #retried = new Set<number>();
  readonly #kernelWork = new KernelWork();
  #finish: Finish | undefined;

  constructor(options: EndpointManagerOptions) {
    const { store, maxEndpoints, clock, seams = NO_SEAMS, permits = new Permits() } = options;
    this.#options = options;
    this.#seams = seams;
    this.#permits = permits;
    this.#ids = new IdPool({
      ...(maxEndpoints === undefined ? {} : { max: maxEndpoints }),
      now: () => clock.now(),
      hasDirectory: (id) => store.directories.has(id),
    });
  }

  /**
   * Begins to finish what an earlier agent left half done: in line before any call that comes after this returns.
   * @param finish is also called later, for what cannot be removed now
   */
  finishBy(finish: Finish): void {
    this.#finish = finish;
    for (const { record } of this.#table.list()) if (!isCommitted(record)) this.#repeat(record);
  }

  /** @returns what ends it */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get(id: number): Endpoint | undefined {
    return this.#table.get(id);
  }

  /** In the order of their ids, without those whose ADD is under way: only operators see these (A§5.3). */
  endpoints(): readonly Endpoint[] {
    return this.all().filter(({ state }) => state !== "creating");
  }

  /** In the order of their ids. */
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
    const { bootId, store, clock } = this.#options;
    const at = clock.date().toISOString();
    const id = this.#ids.take();
    const record: EndpointRecord = { id, phase: "creating", bootId, addresses: [], createdAt: at, updatedAt: at, ...attachment };
    try {
      store.create(record);
    } catch (error) {
      this.#ids.release(id);
      throw error;
    }
    this.#add(record, false).transition("creating", "Attachment is being added");
    return record;
  }

  /**
   * An endpoint that an earlier agent left, or that direct mode made (A§7.3). Its record is on disk.
   * @throws Error when its id is in use
   */
  restore(record: EndpointRecord): Endpoint {
    this.#ids.reserve(record.id);
    return this.#enterRestored(record);
  }

  /** Keeps an id from being given for the time that a released one rests: that of a record that cannot be read. */
  rest(id: number): void {
    this.#ids.reserve(id);
    this.#ids.release(id);
  }

  /**
   * An attachment that direct mode made: it is given an id, and is there as a restored one is (A§11.6). Where there is an endpoint of this
   * attachment, it gets the record: the plugin was the last to change it. Durable when it returns.
   */
  async adopt(found: EndpointRecord): Promise<void> {
    const known = this.#table.ofAttachment(found.attachment);
    // The plugin's ADD was cut off, the attachment is there as before it: what is different by now, the build mends.
    if (known !== undefined && isCommitted(known.record) && isUnfinishedAdd(found)) return known.builds.trigger(RESTORE_BUILD);
    const id = known?.id ?? this.#ids.take();
    const record = { ...found, id, bootId: this.#options.bootId };
    if (known !== undefined) {
      known.write(record);
      if (known.state === "creating" || isEnded(known.state)) {
        // What was being taken back, or removed, is there again.
        await known.builds.stop();
        this.#table.remove(known);
        this.#enterRestored(record);
      } else this.#table.show(known);
    } else {
      try {
        this.#options.store.create(record);
      } catch (error) {
        this.#ids.release(id);
        throw error;
      }
      this.#enterRestored(record);
    }
    if (!isCommitted(record)) this.#repeat(record);
    else this.#table.get(id)?.builds.trigger(RESTORE_BUILD);
  }

  /**
   * Durable when it returns. A record whose phase says so begins the removal: builds end, names are given up (A§5.10 step 1).
   * @throws TortieError `link-delete-timeout` while a build that does not end may still make the link: the removal is repeated until then
   */
  async write(record: EndpointRecord): Promise<EndpointRecord> {
    const endpoint = this.#endpointOf(record);
    const written = endpoint.write(record);
    if (!isDeleting(written)) return written;
    await this.#beginRemoval(endpoint);
    if (!this.#kernelWork.isRunning(record.id)) return written;
    const error = this.#stillBuilding(record);
    await this.retry(written, error);
    throw error;
  }

  /** In memory alone: what the API shows of an ADD under way. */
  keep(record: EndpointRecord): EndpointRecord {
    return this.#endpointOf(record).keep(record);
  }

  /**
   * Identity and first build (A§11.4 step 7).
   * @throws what the build threw; the signal's reason; TortieError `build-timeout`
   */
  async build(record: EndpointRecord, signal: AbortSignal): Promise<EndpointRecord> {
    const endpoint = this.#endpointOf(record);
    if (endpoint.state === "creating") {
      endpoint.transition("waiting-for-identity", "Endpoint is known, its identity is awaited");
      this.#table.show(endpoint);
    }
    const late = new TortieError("build-timeout", `the first build was not done within ${FIRST_BUILD_LIMIT_MS / 1000} s`);
    await withLimit(this.#options.clock, { limitMs: FIRST_BUILD_LIMIT_MS, late, signal }, async (ended) => {
      const identity = await this.#seams.identity.resolve(endpoint.record, record.labels, ended);
      if (identity !== undefined) endpoint.keep({ ...endpoint.record, identity });
      await endpoint.builds.build(INITIAL_BUILD);
    });
    return endpoint.record;
  }

  /** The point of no return. */
  async commit(record: EndpointRecord): Promise<EndpointRecord> {
    const endpoint = this.#endpointOf(record);
    const committedAt = this.#options.clock.date().toISOString();
    const written = endpoint.write({ ...record, phase: "ready", committedAt, committedBootMs: bootTimeMs() });
    if (endpoint.state === "creating") endpoint.transition("waiting-for-identity", "Endpoint is known");
    if (endpoint.state === "waiting-for-identity") endpoint.transition("ready", "Attachment is committed");
    this.#table.show(endpoint);
    this.#tell("ready", endpoint);
    return written;
  }

  /** An ADD was taken back: nothing of it is left. */
  async discard(record: EndpointRecord): Promise<void> {
    const endpoint = this.#endpointOf(record);
    await this.#beginRemoval(endpoint);
    if (this.#kernelWork.isRunning(record.id)) return this.retry(record, this.#stillBuilding(record));
    this.#options.store.discard(record.id);
    this.#forget(endpoint);
  }

  /** Link, addresses and record in the store are gone: what is left of a removal (A§5.10 steps 3, 6 to 8). */
  async remove(record: EndpointRecord): Promise<void> {
    const endpoint = this.#endpointOf(record);
    await this.#beginRemoval(endpoint);
    const failures = [
      await failureOf(() => this.#seams.datapath.remove(endpoint.record)),
      await failureOf(() => this.#seams.identity.release(endpoint.record)),
    ].filter((failure) => failure !== undefined);
    if (failures.length > 0) return this.retry(record, failures[0]);
    const { store, clock } = this.#options;
    endpoint.transition("disconnected", "Endpoint is removed");
    // While its file is in its place.
    endpoint.log.flush();
    store.directories.retire(record.id, clock.date().getTime());
    this.#forget(endpoint);
  }

  /** A removal could not be finished: controller `finish-delete-<id>` repeats it. */
  async retry(record: EndpointRecord, error: unknown): Promise<void> {
    this.#options.log.error(`endpoint ${record.id} is not removed yet, it is tried again: ${messageOf(error)}`);
    this.#table.get(record.id)?.note("Failure", "Other", `Removal failed: ${messageOf(error)}`);
    this.#repeat(record);
  }

  /** Asks for a build of an endpoint that is there; others are not built. */
  trigger(id: number, trigger: Trigger): void {
    this.#table.get(id)?.builds.trigger(trigger);
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
    const { store, clock, dataplane, grants, hold, onBuilt = () => {} } = this.#options;
    const { datapath } = this.#seams;
    const parts = { dataplane, grants, hold, directories: store.directories, datapath, kernelWork: this.#kernelWork };
    const endpoint = new Endpoint(record, {
      clock,
      store,
      isRestored,
      builds: {
        permits: this.#permits,
        recovery: new Recovery(clock),
        build: (target, work, signal) => buildEndpoint(parts, target, work, signal),
        onBuilt,
      },
    });
    this.#table.add(endpoint);
    return endpoint;
  }

  async #beginRemoval(endpoint: Endpoint): Promise<void> {
    if (isEnded(endpoint.state)) return;
    endpoint.transition("disconnecting", "Endpoint is being removed");
    this.#table.hide(endpoint);
    this.#tell("removing", endpoint);
    if (await endsWithin(this.#options.clock, STOP_LIMIT_MS, endpoint.builds.stop())) return;
    this.#options.log.error(`endpoint ${endpoint.id}: its build does not end, and is left behind`);
  }

  #stillBuilding({ id }: EndpointRecord): TortieError {
    return new TortieError("link-delete-timeout", `endpoint ${id}: a build is still at its link, which it may make again`);
  }

  /** Repeats the removal until it is done; the first try comes at once. */
  #repeat(record: EndpointRecord): void {
    const { id, attachment } = record;
    // Without a way to finish yet: `finishBy` will take over all of them.
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
        // `remove` leaves what a seam could not remove to this controller, without an error.
        if (unfinished() !== undefined) throw new Error(`endpoint ${id} is still there`);
      },
    });
  }

  #forget(endpoint: Endpoint): void {
    const { id } = endpoint;
    this.#table.remove(endpoint);
    this.#ids.release(id);
    // Not awaited: it may be the one that runs now.
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
