/**
 * Serves a call on a node whose agent is away (A§11.5, A§11.6). It may come back at any moment: the
 * attachment's lock keeps the two apart, and what the plugin made is recorded for the agent before it has effects.
 */

import { statSync } from "node:fs";
import { grantOf, RecordingJournal } from "../../handover/add-journal.ts";
import { AttachmentLocks } from "../../handover/attachment-locks.ts";
import type { CniCall } from "../../handover/call.ts";
import { callText, digestOf, parseCall } from "../../handover/call-body.ts";
import { DeleteQueueFiles, DirectRecords, recordsOfAgent } from "../../handover/left-files.ts";
import { type EndpointRecord, encodeRecord, isCommitted, NO_ID, type RecordedNamespace } from "../../handover/record.ts";
import { isHostScope, readBootId } from "../../handover/run-directory.ts";
import { type AttachmentId, attachmentOf, fileKey, isListed, isSameAttachment } from "../../lib/cni/attachment-id.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../../lib/cni/request.ts";
import { attachmentsToKeep } from "../../lib/config/decode.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { ifReadable } from "../../lib/system/files.ts";
import { sha256 } from "../../lib/system/hash.ts";
import { bootTimeMs } from "../../lib/system/libc.ts";
import { withCookie } from "../../lib/system/sandbox.ts";
import { type NetworkCall, resolveAttachmentCall } from "../call.ts";
import { unplug } from "../del.ts";
import type { Host } from "../host.ts";
import { NO_POLICY } from "../policy.ts";
import { serve } from "../serve.ts";
import type { Way } from "./ask.ts";

/** DELs of others that a DEL carries out; a GC, whose caller waits for long, does all. */
const MOST_BESIDE_A_DEL = 8;

type WayOf<K extends Way["kind"]> = Extract<Way, { kind: K }>;

/** A call, and where its traces for the agent go. */
interface Recorded {
  readonly call: NetworkCall;
  readonly host: Host;
  /** Without a descriptor, which ends with this process. */
  readonly given: CniCall;
  readonly attachment: AttachmentId;
  readonly queue: DeleteQueueFiles;
  readonly direct: DirectRecords;
  recordedByAgent(): readonly EndpointRecord[];
  lock(): Promise<Disposable>;
}

function recorded(
  call: NetworkCall,
  host: Host,
  { call: { netns, runDirectory, ...given } }: WayOf<"agent-away" | "agent-away-del">,
): Recorded {
  const attachment = attachmentOf(call.request);
  const { fd: _, ...place } = netns;
  return {
    call,
    host,
    given: { ...given, netns: withCookie(place) },
    attachment,
    queue: new DeleteQueueFiles(runDirectory.deleteQueue),
    direct: new DirectRecords(runDirectory.direct),
    recordedByAgent: () => recordsOfAgent(runDirectory),
    lock() {
      const onWait = (message: string) => call.log.writeNow("info", message);
      return new AttachmentLocks(runDirectory.attachments).take(fileKey(attachment), { signal: call.signal, onWait });
    },
  };
}

/** Serves the call beside the agent. @returns what to print */
export async function serveWithRecord(call: NetworkCall, host: Host, way: WayOf<"agent-away">): Promise<string | undefined> {
  const { request, log, signal } = call;
  log.info(`served without the agent: ${way.why}`);
  const aside = recorded(call, host, way);
  switch (request.command) {
    case "ADD": {
      using _ = await aside.lock();
      return await addRecorded(aside);
    }
    case "DEL": {
      using _ = await aside.lock();
      await delRecorded(aside);
      break;
    }
    case "CHECK": {
      using _ = await aside.lock();
      return await serve(call, host);
    }
    case "GC":
      await collectRecorded(aside);
      break;
    case "STATUS":
      return serve(call, host);
  }
  if (way.isLeft) {
    // Loaded only where it is used: a process that lives for one call pays for each module.
    const { carryOutQueued } = await import("./queued-deletes.ts");
    await carryOutQueued(way, { most: request.command === "GC" ? Number.POSITIVE_INFINITY : MOST_BESIDE_A_DEL, log, signal });
  }
  return undefined;
}

/** Does what a pod that ends needs at once; the addresses and the record wait for the agent (A§11.5). */
export async function unplugAndQueueDelete(call: NetworkCall, host: Host, way: WayOf<"agent-away-del">): Promise<undefined> {
  const aside = recorded(call, host, way);
  using _ = await aside.lock();
  await unplug(resolveAttachmentCall(call), host);
  call.log.step("dataplane");
  const problem = await enqueue(aside, aside.attachment, aside.given);
  if (problem === undefined) {
    aside.direct.remove(aside.attachment);
    call.log.info(`the rest of this DEL is left to the agent: ${way.why}`);
    return undefined;
  }
  if (isHostScope(call.config.ipam.type, way.agent)) {
    throw new TortieError("delete-queue-full", `${problem}; the addresses are the agent's to release`);
  }
  call.log.info(`served without the agent: ${problem}`);
  await delRecorded(aside);
  return undefined;
}

async function addRecorded(aside: Recorded): Promise<string | undefined> {
  const { call, host, attachment, direct } = aside;
  const write = (record: EndpointRecord) => {
    const written = { ...record, updatedAt: new Date().toISOString() };
    direct.write(written);
    return written;
  };
  const opensByRecord = call.policy !== NO_POLICY;
  const known = committedRecord(aside);
  const journal = new RecordingJournal({
    // The agent does what follows an ADD when it takes the record over.
    records: {
      write: async (record) => write(record),
      // Where policy is on, an agent that lives opens the pod while its ADD is under way.
      keep: (record) => (opensByRecord ? write(record) : record),
      build: async (record) => record,
      commit: async (record) => write({ ...record, committedAt: new Date().toISOString(), committedBootMs: bootTimeMs() }),
    },
    record: { ...recordOf(aside), previous: known && encodeRecord(known) },
    isBegun: false,
    grant: grantOf(call.config),
    cniVersion: call.request.cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT,
    signal: call.signal,
  });
  try {
    const printed = await serve({ ...call, journal }, host);
    // A DEL from before this ADD must not be carried out behind it.
    await forgetQueued(aside);
    return printed;
  } catch (error) {
    // What could not be taken back the record still names, until a DEL or the agent has removed it.
    if (journal.record.phase === "ready") throw error;
    if (known !== undefined) direct.write(known);
    else if (!(error instanceof SuppressedError)) direct.remove(attachment);
    throw error;
  }
}

/** Reads what an earlier ADD made beside the agent, which a repeated one must not give up. An unreadable record does not count. */
function committedRecord({ direct, attachment }: Recorded): EndpointRecord | undefined {
  const known = ifReadable(() => direct.read(attachment));
  return known !== undefined && isCommitted(known) ? known : undefined;
}

/**
 * Serves a DEL of which the agent may have a record. A file in its queue tells it before the first effect: an agent that starts meanwhile
 * does not make the link again (design, invariant 16), and forgets the attachment when it carries the DEL out once more.
 */
async function delRecorded(aside: Recorded): Promise<void> {
  const { call, host, given, attachment, direct } = aside;
  const isRecorded = aside.recordedByAgent().some((record) => isSameAttachment(record.attachment, attachment));
  const announce = async (isServed: boolean) => {
    const problem = await enqueue(aside, attachment, given, isServed);
    if (problem !== undefined) call.log.info(`the agent does not learn of this DEL: ${problem}`);
  };
  if (isRecorded) await announce(false);
  await serve(call, host);
  direct.remove(attachment);
  if (isRecorded) await announce(true);
  else await forgetQueued(aside);
}

async function forgetQueued({ queue, attachment }: Recorded): Promise<void> {
  const entry = queue.find(fileKey(attachment));
  if (entry !== undefined) await queue.remove(entry);
}

/**
 * Serves a GC. The agent must not take over what it removed, nor make links again that it has recorded: a DEL of each such attachment is
 * queued before.
 */
async function collectRecorded(aside: Recorded): Promise<void> {
  const { call, host, direct } = aside;
  const { request, config, log } = call;
  const begun = Date.now();
  const kept = attachmentsToKeep(config);
  const isRemoved = ({ attachment }: EndpointRecord) => attachment.network === request.network && !isListed(kept, attachment);
  for (const { attachment, createdAt, request: made } of aside.recordedByAgent().filter(isRemoved)) {
    // A registered endpoint has no call, and the list of a GC says nothing of an attachment that is newer than the GC.
    if (made?.call === undefined || Date.parse(createdAt) >= begun) continue;
    const problem = await enqueue(aside, attachment, parseCall(made.call, "DEL"));
    if (problem !== undefined) log.info(`the agent is not told that GC removes container ${attachment.containerId}: ${problem}`);
  }
  await serve(call, host);
  for (const { attachment } of direct.list().records.filter(isRemoved)) direct.remove(attachment);
}

/** @returns what stands in the way */
async function enqueue({ queue }: Recorded, attachment: AttachmentId, call: CniCall, isServed = false): Promise<string | undefined> {
  try {
    const isQueued = await queue.write(fileKey(attachment), call, isServed);
    return isQueued ? undefined : `the agent's delete queue ${queue.directory} is full`;
  } catch (error) {
    return `the agent's delete queue ${queue.directory} cannot be written: ${messageOf(error)}`;
  }
}

function recordOf({ call, given, attachment }: Recorded): EndpointRecord {
  const { request } = call;
  const pod = podOf(call);
  const now = new Date().toISOString();
  return {
    id: NO_ID,
    phase: "creating",
    attachment,
    netns: namespaceOf(request.netns),
    bootId: readBootId(),
    podInterface: attachment.ifname,
    linkForm: "routed",
    addresses: [],
    ...(pod === undefined ? {} : { pod }),
    request: { digest: digestOf(given), cniVersion: request.cniVersion ?? "", configDigest: sha256(given.text), call: callText(given) },
    createdAt: now,
    updatedAt: now,
  };
}

/** Arguments that are not valid fail the flow, with its own words. */
function podOf(call: NetworkCall): string | undefined {
  try {
    const { namespace, pod } = resolveAttachmentCall(call).identity;
    return pod === "" ? undefined : `${namespace}/${pod}`;
  } catch {
    return undefined;
  }
}

function namespaceOf(path: string): RecordedNamespace {
  const status = statSync(path, { bigint: true, throwIfNoEntry: false });
  return status === undefined ? { path } : withCookie({ path, dev: String(status.dev), ino: String(status.ino) });
}
