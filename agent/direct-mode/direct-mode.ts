/**
 * A call that the plugin serves itself on a node that has an agent, which is away (A§11.5, A§11.6). It may come back at any moment: the
 * attachment's lock keeps the two apart, and what the plugin made is recorded for the agent before it has effects.
 */
import { statSync } from "node:fs";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../../lib/cni/version.ts";
import { attachmentsToKeep } from "../../lib/config/decode.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { bootTimeMs } from "../../lib/system/boot-time.ts";
import { withCookie } from "../../lib/system/sandbox.ts";
import { type NetworkCall, resolveAttachmentCall } from "../../main-plugin/call.ts";
import { unplug } from "../../main-plugin/del.ts";
import type { Node } from "../../main-plugin/node.ts";
import { serve } from "../../main-plugin/serve.ts";
import { RecordingJournal } from "../attachments/add-journal.ts";
import { grantOf } from "../attachments/add-operation.ts";
import { type CallBody, callFields, callText, decodeCallBody, digestOf, parseCallBody, sha256 } from "../attachments/call-body.ts";
import { entryText } from "../delete-queue/queue-entry.ts";
import { QueueFiles } from "../delete-queue/queue-files.ts";
import { DirectRecords, NO_ID } from "../direct-records/direct-records.ts";
import { type Attachment, type EndpointRecord, isCommitted, type RecordedNamespace } from "../endpoints/record/endpoint-record.ts";
import { encodeRecord } from "../endpoints/record/record-codec.ts";
import type { Way } from "../forward/forward.ts";
import type { PreparedCall } from "../forward/prepared-call.ts";
import { readBootId } from "../run-directory/agent-file.ts";
import { attachmentKey } from "../run-directory/attachment-key.ts";
import { AttachmentLocks } from "../run-directory/attachment-locks.ts";
import { isHostScope } from "./is-host-scope.ts";
import { hasRecord, recordsOfAgent } from "./records-of-agent.ts";

/** DELs of others that a DEL carries out; a GC, whose caller waits for long, does all. */
const MOST_BESIDE_A_DEL = 8;

type WayOf<K extends Way["kind"]> = Extract<Way, { kind: K }>;

/** @returns what is to be printed */
export async function serveBeside(call: NetworkCall, node: Node, way: WayOf<"beside">): Promise<string | undefined> {
  const { request, log, signal } = call;
  log.info(`served without the agent: ${way.why}`);
  const { direct } = filesOf(way.call);
  switch (request.command) {
    case "ADD": {
      using _ = await lock(call, way.call);
      return await addRecorded(call, node, way.call, direct);
    }
    case "DEL": {
      using _ = await lock(call, way.call);
      await delRecorded(call, node, way.call);
      break;
    }
    case "CHECK": {
      using _ = await lock(call, way.call);
      return await serve(call, node);
    }
    case "GC": {
      await tellUnlisted(call, way.call, Date.now());
      await serve(call, node);
      forgetUnlisted(call, direct);
      break;
    }
    case "STATUS":
      return serve(call, node);
  }
  if (way.isLeft) {
    // Loaded only where it is used: a process that lives for one call pays for each module.
    const { carryOutQueued } = await import("./carry-out-queued.ts");
    await carryOutQueued(way, { most: request.command === "GC" ? Number.POSITIVE_INFINITY : MOST_BESIDE_A_DEL, log, signal });
  }
  return undefined;
}

/** What a pod that ends needs at once; the addresses and the record wait for the agent (A§11.5). */
export async function unplugAndQueue(call: NetworkCall, node: Node, way: WayOf<"queue">): Promise<undefined> {
  const { queue, direct } = filesOf(way.call);
  using _ = await lock(call, way.call);
  await unplug(resolveAttachmentCall(call), node);
  call.log.step("dataplane");
  const problem = await enqueue(queue, attachmentKey(way.call.attachment), callOf(way.call));
  if (problem === undefined) {
    direct.remove(attachmentOf(call));
    call.log.info(`the rest of this DEL is left to the agent: ${way.why}`);
    return undefined;
  }
  if (isHostScope(call, way.agent)) throw new TortieError("delete-queue-full", `${problem}; the addresses are the agent's to release`);
  call.log.info(`served without the agent: ${problem}`);
  await delRecorded(call, node, way.call);
  return undefined;
}

async function addRecorded(call: NetworkCall, node: Node, prepared: PreparedCall, direct: DirectRecords): Promise<string | undefined> {
  const { request, signal } = call;
  const write = async (record: EndpointRecord) => {
    const now = new Date().toISOString();
    const written = { ...record, updatedAt: now };
    direct.write(written);
    return written;
  };
  const known = committedRecord(call, direct);
  const journal = new RecordingJournal({
    // The agent does what follows an ADD when it takes the record over.
    records: {
      write,
      keep: (record) => record,
      build: async (record) => record,
      commit: (record) => write({ ...record, committedAt: new Date().toISOString(), committedBootMs: bootTimeMs() }),
    },
    record: { ...recordOf(call, prepared), ...(known === undefined ? {} : { previous: encodeRecord(known) }) },
    isBegun: false,
    grant: grantOf(call),
    cniVersion: request.cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT,
    signal,
  });
  try {
    const printed = await serve({ ...call, residence: { ...call.residence, journal } }, node);
    // A DEL from before this ADD must not be carried out behind it.
    await forgetQueued(prepared);
    return printed;
  } catch (error) {
    // What could not be taken back the record still names, until a DEL or the agent has removed it.
    if (journal.record.phase === "ready") throw error;
    if (known !== undefined) direct.write(known);
    else if (!(error instanceof SuppressedError)) direct.remove(attachmentOf(call));
    throw error;
  }
}

/** Of an attachment that an earlier ADD made beside the agent, which a repeated one must not give up. One that cannot be read is none. */
function committedRecord(call: NetworkCall, direct: DirectRecords): EndpointRecord | undefined {
  try {
    const known = direct.read(attachmentOf(call));
    return known !== undefined && isCommitted(known) ? known : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The agent may have a record of what is removed here. A file in its queue tells it before the first effect: an agent that starts meanwhile
 * does not make the link again (design, invariant 16), and forgets the attachment when it carries the DEL out once more.
 */
async function delRecorded(call: NetworkCall, node: Node, prepared: PreparedCall): Promise<void> {
  const { queue, direct } = filesOf(prepared);
  const isRecorded = hasRecord(recordsOfAgent(prepared.runDirectory), attachmentOf(call));
  const tell = async (isServed: boolean) => {
    const problem = await enqueue(queue, attachmentKey(prepared.attachment), callOf(prepared), isServed);
    if (problem !== undefined) call.log.info(`the agent is not told of this DEL: ${problem}`);
  };
  if (isRecorded) await tell(false);
  await serve(call, node);
  direct.remove(attachmentOf(call));
  if (isRecorded) await tell(true);
  else await forgetQueued(prepared);
}

async function forgetQueued(prepared: PreparedCall): Promise<void> {
  const { queue } = filesOf(prepared);
  const entry = queue.find(attachmentKey(prepared.attachment));
  if (entry !== undefined) await queue.remove(entry);
}

/** What GC removed the agent must not take over. */
function forgetUnlisted({ request, config }: NetworkCall, direct: DirectRecords): void {
  const kept = attachmentsToKeep(config);
  for (const { attachment } of direct.list().records) {
    const { network, containerId, ifname } = attachment;
    if (network !== request.network || kept.some((one) => one.containerID === containerId && one.ifname === ifname)) continue;
    direct.remove(attachment);
  }
}

/** Queues a DEL of each attachment that the agent has recorded and this GC is to remove: without it the agent makes their links again. */
async function tellUnlisted({ request, config, log }: NetworkCall, prepared: PreparedCall, begun: number): Promise<void> {
  const kept = attachmentsToKeep(config);
  const { queue } = filesOf(prepared);
  for (const { attachment, createdAt, request: recorded } of recordsOfAgent(prepared.runDirectory)) {
    const { network, containerId, ifname } = attachment;
    if (network !== request.network || kept.some((one) => one.containerID === containerId && one.ifname === ifname)) continue;
    // A registered endpoint has no call, and the list of a GC says nothing of an attachment that is newer than the GC.
    if (recorded?.call === undefined || Date.parse(createdAt) >= begun) continue;
    const problem = await enqueue(queue, attachmentKey({ network, containerId, interfaceName: ifname }), parseCallBody(recorded.call));
    if (problem !== undefined) log.info(`the agent is not told that GC removes container ${containerId}: ${problem}`);
  }
}

/** @returns what stands in the way */
async function enqueue(queue: QueueFiles, key: string, body: CallBody, isServed = false): Promise<string | undefined> {
  try {
    const isQueued = await queue.write(key, entryText(callFields(body), isServed));
    return isQueued ? undefined : `the agent's delete queue ${queue.directory} is full`;
  } catch (error) {
    return `the agent's delete queue ${queue.directory} cannot be written: ${messageOf(error)}`;
  }
}

/** Without a descriptor, which ends with this process. */
function callOf({ body }: PreparedCall): CallBody {
  const { netns, ...rest } = body;
  if (netns === undefined) return decodeCallBody(body);
  const { fd, ...place } = netns;
  return decodeCallBody({ ...rest, netns: withCookie(place) });
}

function recordOf(call: NetworkCall, prepared: PreparedCall): EndpointRecord {
  const { request } = call;
  const body = callOf(prepared);
  const now = new Date().toISOString();
  return {
    id: NO_ID,
    phase: "creating",
    attachment: attachmentOf(call),
    netns: namespaceOf(request.netns),
    bootId: readBootId(),
    podInterface: request.interfaceName,
    linkForm: "routed",
    addresses: [],
    request: { digest: digestOf(body), cniVersion: request.cniVersion ?? "", configDigest: sha256(body.stdin), call: callText(body) },
    createdAt: now,
    updatedAt: now,
  };
}

function namespaceOf(path: string): RecordedNamespace {
  const status = statSync(path, { bigint: true, throwIfNoEntry: false });
  return status === undefined ? { path } : withCookie({ path, dev: String(status.dev), ino: String(status.ino) });
}

function lock({ log, signal }: NetworkCall, { attachment, runDirectory }: PreparedCall): Promise<Disposable> {
  const locks = new AttachmentLocks(runDirectory.attachments);
  return locks.take(attachmentKey(attachment), { signal, onWait: (message) => log.writeNow("info", message) });
}

function filesOf({ runDirectory }: PreparedCall): { readonly queue: QueueFiles; readonly direct: DirectRecords } {
  return { queue: new QueueFiles(runDirectory.deleteQueue), direct: new DirectRecords(runDirectory.direct) };
}

function attachmentOf({ request: { network, containerId, interfaceName } }: NetworkCall): Attachment {
  return { network, containerId, ifname: interfaceName };
}
