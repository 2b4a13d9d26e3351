/**
 * Reads back what an earlier agent left (A§7.3). The local part needs no network and waits for no other process, before the socket is there.
 * It removes nothing on the strength of one look; what an ADD or DEL left half done is finished behind, by its record.
 */

import type { HostLink } from "../../dataplane/linux/host-facts.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import { isCommitted, isUnfinishedAdd, type RecordedAddress } from "../../handover/record.ts";
import type { GrantFile } from "../../ipam-plugin/host-scope/grant-directory.ts";
import { type AttachmentOwner, isSameOwner, ownerKey } from "../../ipam-plugin/host-scope/grant-directory.ts";
import type { GrantFiles } from "../../ipam-plugin/host-scope/grant-files.ts";
import { parseAddress } from "../../lib/addresses/address.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import type { Endpoint } from "./endpoint.ts";
import type { EndpointManager } from "./manager.ts";
import { RESTORE_BUILD } from "./mending.ts";
import { isSandboxGone } from "./sandbox.ts";
import type { RecordStore } from "./store.ts";

export interface LocalPartOptions {
  readonly store: RecordStore;
  readonly endpoints: Pick<EndpointManager, "restore" | "rest">;
  /** One dump of the host's links. */
  readonly links: () => readonly HostLink[];
  readonly clock: Clock;
  readonly log: Pick<AgentLog, "info" | "error">;
}

/** Numbers of the message `restored`. */
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
  readonly milliseconds: number;
}

export function restoreLocal({ store, endpoints, links, clock, log }: LocalPartOptions): LocalReport {
  const begun = clock.now();
  const now = clock.date().getTime();
  const present = linksOrNone(links, log);
  const ids = store.ids();
  const ready: Endpoint[] = [];
  const findings: string[] = [];
  const numbers = { undone: 0, deleting: 0, waiting: 0, bad: 0 };
  for (const stored of ids.map((id) => store.read(id))) {
    const { id, kind } = stored;
    if (kind === "empty") store.discard(id);
    else if (kind === "unreadable") {
      // Keeps it for a person. Its addresses are unknown, so they are not given back.
      const path = store.setAsideBad(id, now);
      endpoints.rest(id);
      numbers.bad++;
      findings.push(`endpoint ${id}: its record cannot be read and is kept at ${path}: ${stored.reason}`);
    } else {
      const endpoint = endpoints.restore(stored.record);
      if (isCommitted(stored.record)) {
        ready.push(endpoint);
        if (!isWhole(endpoint, present)) numbers.waiting++;
      } else if (isUnfinishedAdd(stored.record)) numbers.undone++;
      else numbers.deleting++;
    }
  }
  const milliseconds = clock.now() - begun;
  log.info("restored: local part", { ...numbers, read: ids.length, milliseconds, ready: ready.length });
  for (const finding of findings) log.error(finding);
  return { ...numbers, read: ids.length, ready, milliseconds };
}

/** Reads the links. Without them nothing can be judged of any endpoint, and all of them stay. */
function linksOrNone(links: LocalPartOptions["links"], log: LocalPartOptions["log"]): readonly HostLink[] | undefined {
  try {
    return links();
  } catch (error) {
    log.error(`the links of the host cannot be listed: ${messageOf(error)}`);
    return undefined;
  }
}

/** Notes at an endpoint what it lacks at first sight. @returns whether link and sandbox are there */
function isWhole(endpoint: Endpoint, links: readonly HostLink[] | undefined): boolean {
  const { record } = endpoint;
  const isGone = () => (isSandboxGone(record) ? `sandbox ${record.netns.path} is gone, or is now another one` : undefined);
  const problem = missingLink(endpoint, links) ?? isGone();
  if (problem !== undefined) endpoint.note("Warning", "Other", `First observation at restore: ${problem}`);
  return problem === undefined;
}

/**
 * Looks for the link by alias and index; a name alone proves nothing. One with our alias and another index is taken over.
 * @returns in words what is missing
 */
function missingLink(endpoint: Endpoint, links: readonly HostLink[] | undefined): string | undefined {
  const { hostInterface, linkForm } = endpoint.record;
  if (linkForm === "attached" || hostInterface === undefined || links === undefined) return undefined;
  const own = links.filter(({ alias }) => alias === hostInterface.alias);
  if (own.some(({ index }) => index === hostInterface.index)) return undefined;
  const [other] = own;
  if (other === undefined) return `no link of the host says that it is ${hostInterface.alias}`;
  endpoint.write({ ...endpoint.record, hostInterface: { ...hostInterface, index: other.index } });
  endpoint.note("OK", "Other", `Link ${other.name} has index ${other.index} now, not ${hostInterface.index ?? "unknown"}: taken over`);
  return undefined;
}

/**
 * Mends each restored endpoint once, a few at a time, behind whatever else the agent does. One that fails stays as the kernel has it and is
 * tried again by itself.
 */
export async function buildRestored(
  endpoints: Pick<EndpointManager, "get">,
  { ready, milliseconds: local, read, undone, deleting, waiting, bad }: LocalReport,
  { clock, log }: Pick<LocalPartOptions, "clock" | "log">,
): Promise<void> {
  const begun = clock.now();
  // One that was removed meanwhile ends its restore quietly.
  const present = ready.filter((endpoint) => endpoints.get(endpoint.id) === endpoint);
  const outcomes = await Promise.allSettled(present.map(({ mending }) => mending.run(RESTORE_BUILD)));
  const built = outcomes.filter(({ status }) => status === "fulfilled").length;
  const numbers = { read, ready: ready.length, undone, deleting, adopted: 0, waiting, bad, built, failed: outcomes.length - built };
  log.info("restored", { ...numbers, localMilliseconds: Math.round(local), buildMilliseconds: Math.round(clock.now() - begun) });
}

export interface RegrantOptions {
  readonly records: readonly EndpointRecord[];
  readonly files: Pick<GrantFiles, "create" | "read">;
  readonly nowMs: () => number;
  readonly onRegranted: (record: EndpointRecord, address: string) => void;
  /** An address of the endpoint that it cannot be proved to hold, in words. */
  readonly onConflict: (record: EndpointRecord, address: string, problem: string) => void;
}

/**
 * Grants addresses of the host scope again that restored endpoints have and no file grants (A§7.3 step 7): a lost file is written before
 * addresses can be requested. An address that another holder has meanwhile stays with that one and is reported while the endpoint exists.
 * Goes on after failures: each is a conflict, since the holder of the address is unknown.
 */
export async function regrant({ records, files, nowMs, onRegranted, onConflict }: RegrantOptions): Promise<void> {
  for (const record of records.filter(isCommitted)) {
    for (const recorded of record.addresses.filter(({ grant }) => grant === "file")) {
      try {
        const outcome = await regrantOne(record, recorded, files, nowMs());
        if (outcome.isNew) onRegranted(record, recorded.address);
        if (outcome.holder !== undefined) onConflict(record, recorded.address, `it is granted to ${ownerKey(outcome.holder.owner)}`);
      } catch (error) {
        onConflict(record, recorded.address, `its grant can be neither read nor made: ${messageOf(error)}`);
      }
    }
  }
}

interface Outcome {
  readonly isNew: boolean;
  /** Somebody else. */
  readonly holder: GrantFile | undefined;
}

/** @throws Error */
async function regrantOne(
  record: EndpointRecord,
  { address: text, token }: RecordedAddress,
  files: RegrantOptions["files"],
  grantedAtMs: number,
): Promise<Outcome> {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`${text} is no address`);
  const owner: AttachmentOwner = { kind: "attachment", ...record.attachment, pod: record.pod };
  // A registered endpoint's address is released by its token, a container's by the attachment.
  const made: GrantFile = { owner, token: token ?? crypto.randomUUID(), grantedAtMs, endpoint: record.id };
  if (await files.create(address, made)) return { isNew: true, holder: undefined };
  // A file that cannot be read keeps the address granted, to an unknown holder.
  const found = (await files.read(address))?.grant;
  const isTheirs = found === undefined || found.token === token || isSameOwner(found.owner, owner);
  return { isNew: false, holder: isTheirs ? undefined : found };
}
