/**
 * The local part of a restore (A§7.3): the steps that need no network and wait for no other process, before the socket is there. Nothing is
 * removed here on the strength of one look; what an ADD or DEL left half done is finished behind, by its record.
 */
import type { HostLink } from "../../dataplane/linux/host-facts.ts";
import { type EndpointRecord, isCommitted, isUnfinishedAdd } from "../../handover/record.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { Clock } from "../../lib/system/clock.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import type { RecordStore } from "../endpoints/record/record-store.ts";
import { isSandboxGone } from "../endpoints/recorded-sandbox.ts";
import { mendDirectories } from "./directories.ts";

export interface LocalPartOptions {
  readonly store: RecordStore;
  readonly endpoints: EndpointManager;
  /** One dump of the host's links. */
  readonly links: () => readonly HostLink[];
  readonly clock: Clock;
  readonly log: { info(message: string, fields?: Readonly<Record<string, unknown>>): void; error(message: string): void };
}

/** Numbers of the message `restored`, and what a person is to look at. */
export interface LocalReport {
  /** Directories looked at. */
  readonly read: number;
  /** Endpoints that wait for their build. */
  readonly ready: readonly Endpoint[];
  /** Unfinished ADDs that are taken back. */
  readonly undone: number;
  /** Removals that go on. */
  readonly deleting: number;
  /** Endpoints without their link or their sandbox: looked at again by the sweep. */
  readonly waiting: number;
  readonly bad: number;
  readonly findings: readonly string[];
  readonly milliseconds: number;
}

export function restoreLocal(options: LocalPartOptions): LocalReport {
  const { store, clock, log } = options;
  const begun = clock.now();
  const now = clock.date().getTime();
  mendDirectories(store.directories, now);
  const links = linksOrNone(options);
  const part = new LocalPart(options, links);
  const stored = store.readAll();
  for (const found of stored) {
    if (found.kind === "empty") store.discard(found.id);
    else if (found.kind === "unreadable") part.setAside(found.id, found.reason, now);
    else part.restore(found.record);
  }
  const report: LocalReport = { ...part.report(), read: stored.length, milliseconds: clock.now() - begun };
  const { ready, findings, ...numbers } = report;
  log.info("restored: local part", { ...numbers, ready: ready.length });
  for (const finding of findings) log.error(finding);
  return report;
}

/** Without the links nothing can be said of any endpoint, and all of them stay. */
function linksOrNone({ links, log }: LocalPartOptions): readonly HostLink[] | undefined {
  try {
    return links();
  } catch (error) {
    log.error(`the links of the host cannot be listed: ${messageOf(error)}`);
    return undefined;
  }
}

class LocalPart {
  readonly #options: LocalPartOptions;
  readonly #links: readonly HostLink[] | undefined;
  readonly #ready: Endpoint[] = [];
  readonly #findings: string[] = [];
  readonly #numbers = { undone: 0, deleting: 0, waiting: 0, bad: 0 };

  constructor(options: LocalPartOptions, links: readonly HostLink[] | undefined) {
    this.#options = options;
    this.#links = links;
  }

  report(): Omit<LocalReport, "read" | "milliseconds"> {
    return { ...this.#numbers, ready: this.#ready, findings: this.#findings };
  }

  /** A record that cannot be read is kept for a person; its addresses are unknown, so they are not given back. */
  setAside(id: number, reason: string, now: number): void {
    const path = this.#options.store.directories.setAsideBad(id, now);
    this.#options.endpoints.rest(id);
    this.#numbers.bad++;
    this.#findings.push(`endpoint ${id}: its record cannot be read and is kept at ${path}: ${reason}`);
  }

  restore(record: EndpointRecord): void {
    const endpoint = this.#options.endpoints.restore(record);
    if (!isCommitted(record)) {
      if (isUnfinishedAdd(record)) this.#numbers.undone++;
      else this.#numbers.deleting++;
      return;
    }
    this.#compare(endpoint);
    this.#ready.push(endpoint);
  }

  #compare(endpoint: Endpoint): void {
    const link = this.#linkOf(endpoint);
    const { record } = endpoint;
    const problem = link ?? (isSandboxGone(record) ? `sandbox ${record.netns.path} is gone, or is another one by now` : undefined);
    if (problem !== undefined) {
      this.#numbers.waiting++;
      endpoint.note("Warning", "Other", `First observation at restore: ${problem}`);
    }
  }

  /**
   * Looks for the link by alias and index; a name alone proves nothing. One with our alias and another index is taken over.
   * @returns in words what is missing
   */
  #linkOf(endpoint: Endpoint): string | undefined {
    const { hostInterface, linkForm } = endpoint.record;
    if (linkForm === "attached" || hostInterface === undefined || this.#links === undefined) return undefined;
    const own = this.#links.filter(({ alias }) => alias === hostInterface.alias);
    if (own.some(({ index }) => index === hostInterface.index)) return undefined;
    const [other] = own;
    if (other === undefined) return `no link of the host says that it is ${hostInterface.alias}`;
    endpoint.write({ ...endpoint.record, hostInterface: { ...hostInterface, index: other.index } });
    endpoint.note("OK", "Other", `Link ${other.name} has index ${other.index} now, not ${hostInterface.index ?? "unknown"}: taken over`);
    return undefined;
  }
}
