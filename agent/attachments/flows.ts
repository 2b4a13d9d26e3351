/**
 * Runs ADD and DEL in the agent (A§11.4, A§5.10): the flows of `main-plugin/` with a record that is written before each effect, so that a
 * killed agent's successor knows what there may be. A repeated ADD is answered from the record, after a look at the link.
 */
import { grantOf, RecordingJournal } from "../../handover/add-journal.ts";
import { callText } from "../../handover/call-body.ts";
import { type EndpointRecord, encodeRecord, isCommitted, type RecordedAddress } from "../../handover/record.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../../lib/cni/request.ts";
import { parseResult } from "../../lib/cni/result.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { parseJson } from "../../lib/json/parse.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { NEVER } from "../../lib/system/waiting.ts";
import {
  type AttachmentCall,
  type HeldAddresses,
  type NetworkCall,
  resolveAddCall,
  resolveAttachmentCall,
} from "../../main-plugin/call.ts";
import { narrowAddress } from "../../main-plugin/ipam-source.ts";
import { planAttachment } from "../../main-plugin/plan.ts";
import { routersFor } from "../../main-plugin/plan-endpoint-form.ts";
import { desiredStateOf } from "../../main-plugin/plan-routed-form.ts";
import { chainedResult, isChained, serve } from "../../main-plugin/serve.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import { recordedOf } from "../endpoints/sandbox.ts";
import type { ServedCall } from "./call.ts";

/** The agent's endpoints. The record of each is the journal of its ADD and DEL (A§11.4). */
export type AttachmentRecords = Pick<
  EndpointManager,
  "find" | "list" | "begin" | "write" | "keep" | "build" | "commit" | "discard" | "remove" | "retry"
>;

export interface Outcome {
  /** What direct mode would print. */
  readonly printed?: string | undefined;
  readonly endpointId?: number;
}

/** One operation on an attachment, in its turn. */
interface Operation {
  readonly served: ServedCall;
  readonly records: AttachmentRecords;
  /** Of the call; `undefined` where it cannot be proven. */
  readonly sandbox: Sandbox | undefined;
}

/**
 * @param signal aborts when the ADD shall be taken back: it is, up to the commit
 * @throws what the flow throws; nothing of a first ADD is left then, or its removal goes on behind
 */
export async function addAttachment(operation: Operation, signal: AbortSignal): Promise<Outcome> {
  const { served, records, sandbox } = operation;
  const call = { ...resolved(served.call), signal, sandbox };
  const known = await settledRecord(operation);
  const isSame = known?.takenOver !== undefined || known?.request?.digest === served.digest;
  const held = known !== undefined && isSame ? heldBy(known, call) : undefined;
  if (known?.result !== undefined && held !== undefined && (await stillStands(known, held, operation, call))) {
    if (known.hostInterface !== undefined) await call.policy.ready(known.hostInterface.name, signal);
    served.log.info("the attachment is there: the result of its ADD is repeated");
    return { printed: known.result, endpointId: known.id };
  }
  const attachment = newAttachment(operation, call);
  const record = known ?? (await records.begin(attachment));
  const journal = new RecordingJournal({
    records,
    record: { ...record, ...attachment, previous: known && encodeRecord(known) },
    isBegun: known === undefined,
    grant: grantOf(call.config),
    cniVersion: call.request.cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT,
    signal,
  });
  try {
    const printed = await serve({ ...call, journal, held }, served.host);
    return { printed, endpointId: record.id };
  } catch (error) {
    await takeBack(error, known, journal.record, operation);
    throw error;
  }
}

/**
 * Runs a DEL, or removes what an ADD left: the record is first and last. Goes on whatever becomes of its caller.
 * @throws what the flow throws; the removal of a known attachment is repeated behind until nothing is left
 */
export async function removeAttachment({ served, records }: Pick<Operation, "served" | "records">): Promise<void> {
  const { attachment, call, host } = served;
  const known = records.find(attachment);
  const record = known && (await records.write({ ...known, phase: "deleting:begun" }));
  try {
    await serve({ ...call, request: { ...call.request, command: "DEL" }, signal: NEVER }, host);
  } catch (error) {
    if (record !== undefined) await records.retry(record, error);
    throw error;
  }
  if (record !== undefined) await records.remove(record);
}

/** Arguments that are not valid fail the flow, with its own words. */
function resolved(call: NetworkCall): NetworkCall | AttachmentCall {
  try {
    return resolveAttachmentCall(call);
  } catch {
    return call;
  }
}

/** Removes first what another operation of this attachment left undone. @returns the record of an attachment that is there */
async function settledRecord(operation: Operation): Promise<EndpointRecord | undefined> {
  const { served, records } = operation;
  const known = records.find(served.attachment);
  if (known === undefined || isCommitted(known)) return known;
  served.log.info("what is left of an earlier operation is removed first", { phase: known.phase });
  await removeAttachment(operation);
  return undefined;
}

function newAttachment({ served, sandbox }: Operation, call: NetworkCall | AttachmentCall) {
  const { attachment, digest, configDigest, given, traceparent } = served;
  const { namespace, pod } = "identity" in call ? call.identity : { namespace: "", pod: "" };
  return {
    attachment,
    netns: recordedOf(given.netns, sandbox),
    podInterface: attachment.ifname,
    ...linkOf(call),
    ...(pod === "" ? {} : { pod: `${namespace}/${pod}` }),
    traceparent,
    takenOver: undefined,
    request: { digest, cniVersion: call.request.cniVersion ?? "", configDigest, call: callText(given) },
  };
}

/** Describes the link. The addresses of another plugin's interface are not the agent's to give back (A§3.8). */
function linkOf(call: NetworkCall): Pick<EndpointRecord, "linkForm"> & Partial<Pick<EndpointRecord, "addresses">> {
  if (!isChained(call)) return { linkForm: call.config.linkForm === "endpoint" ? "endpoint" : "routed" };
  const addresses = chainedResult(call).result.ips.map((ip): RecordedAddress => {
    const { address } = narrowAddress(ip.address);
    return { address: formatAddress(address), family: address.family, grant: "external" };
  });
  return { linkForm: "attached", addresses };
}

/** Reads from a committed record what the attachment holds; `undefined` when the record does not say. */
function heldBy({ desired, result, takenOver }: EndpointRecord, { request }: NetworkCall): HeldAddresses | undefined {
  // The result of the ADD is not known, but the addresses are proven.
  if (takenOver !== undefined && desired !== undefined) return { addresses: desired.pod.addresses, hostRoutes: true, routes: [], dns: {} };
  if (desired === undefined || result === undefined) return undefined;
  const { ips, routes, dns } = parseResult(parseJson(result), request.cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT);
  const addresses = ips.map((ip) => narrowAddress(ip.address));
  return { addresses, hostRoutes: desired.host.routes.length > 0, routes, dns };
}

/** Says whether the kernel still has what the recorded result says, in this very sandbox. */
async function stillStands(
  { netns, podMac }: EndpointRecord,
  held: HeldAddresses,
  { served: { host, log }, sandbox }: Operation,
  call: NetworkCall,
): Promise<boolean> {
  if (sandbox === undefined || netns.path !== sandbox.path || !sandbox.is(netns)) return false;
  const addCall = resolveAddCall(call);
  const plan = planAttachment(addCall, undefined, await routersFor(addCall, host));
  const differences = await host.dataplane.inspect(sandbox, desiredStateOf(plan, held.addresses, held.hostRoutes), { mac: podMac });
  for (const { side, object, wanted, found } of differences) log.info(`made again: ${side} ${object}: wanted ${wanted}, found ${found}`);
  return differences.length === 0;
}

/**
 * Removes what the flow may have left after it took back what it made, a record that others read or something that it could not take back,
 * as a DEL does; the record goes last. Gives up nothing that was there before a repeated ADD.
 */
async function takeBack(error: unknown, known: EndpointRecord | undefined, record: EndpointRecord, operation: Operation): Promise<void> {
  const { served, records } = operation;
  if (isCommitted(record)) return;
  if (known !== undefined) {
    // Memory first: on a file system without room the write fails, and what is there stays what it was.
    records.keep(known);
    await records.write(known);
    return;
  }
  const isClean = record.phase !== "adding:endpoint" && !(error instanceof SuppressedError);
  if (isClean) {
    await records.discard(record);
    return;
  }
  try {
    await removeAttachment(operation);
  } catch (cause) {
    served.log.error(`what the ADD left is removed later: ${messageOf(cause)}`);
    throw new SuppressedError(cause, error, "what the ADD left could not be removed");
  }
}
