/** Holds one endpoint in the agent's memory: its record, its state, its status log and its builds. */

import type { EndpointRecord } from "../../handover/record.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { type Mendable, Mending, type MendingParts } from "./mending.ts";
import { type Actor, judgeTransition, type State, type StatusCode, StatusLog, type StatusType } from "./status.ts";
import type { RecordStore } from "./store.ts";

export type ShownState = State | "not-ready";

export interface EndpointParts extends MendingParts {
  readonly clock: Clock;
  readonly store: RecordStore;
}

export class Endpoint implements Mendable {
  readonly id: number;
  readonly log: StatusLog;
  readonly mending: Mending;
  readonly #parts: EndpointParts;
  #record: EndpointRecord;
  #state: State = "none";

  /**
   * @param record is on disk already
   * @param isRestored an earlier agent left it: its history goes on
   */
  constructor(record: EndpointRecord, parts: EndpointParts, isRestored: boolean) {
    this.id = record.id;
    this.#record = record;
    this.#parts = parts;
    const path = parts.store.logFile(record.id);
    this.log = isRestored ? StatusLog.load(path) : new StatusLog(path);
    this.mending = new Mending(this, parts);
  }

  get record(): EndpointRecord {
    return this.#record;
  }

  get state(): State {
    return this.#state;
  }

  /** Shows others an endpoint as not ready whose newest status of some type is not OK (A§5.2). */
  get shownState(): ShownState {
    return this.#state === "ready" && this.log.status() !== "OK" ? "not-ready" : this.#state;
  }

  /** Replaces the record in memory alone. @returns it with its new time */
  keep(record: EndpointRecord): EndpointRecord {
    this.#record = { ...record, updatedAt: this.#parts.clock.date().toISOString() };
    return this.#record;
  }

  /** Replaces the record, on disk and then in memory. @returns it with its new time @throws SystemError, and nothing has changed */
  journal(record: EndpointRecord): EndpointRecord {
    const written = { ...record, updatedAt: this.#parts.clock.date().toISOString() };
    this.#parts.store.write(written);
    this.#record = written;
    return written;
  }

  /** Replaces the record; in memory alone where the file system refuses it. @returns it with its new time */
  write(record: EndpointRecord): EndpointRecord {
    try {
      return this.journal(record);
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      this.note("Warning", "Other", `The record is not written: ${messageOf(error)}`);
      return this.keep(record);
    }
  }

  transition(to: State, reason: string, actor: Actor = "anybody"): boolean {
    const verdict = judgeTransition(this.#state, to, actor);
    if (verdict === "allowed") {
      this.#state = to;
      this.note("OK", "Other", reason);
      return true;
    }
    if (verdict === "refused") {
      this.note("Warning", "Other", `Skipped invalid state transition from ${this.#state} to ${to} due to: ${reason}`);
    }
    return false;
  }

  note(code: StatusCode, type: StatusType, message: string): void {
    const time = this.#parts.clock.date().toISOString();
    this.log.add({ code, type, message, state: this.#state, time });
  }
}
