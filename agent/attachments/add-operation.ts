/**
 * ADD in the agent (A§11.4): the flow of `main-plugin/add.ts` with a record that is written before each effect, so that a killed agent's
 * successor knows what there may be. A repeated ADD is answered from the record, after a look at the link.
 */
import { formatAddress } from "../../lib/addresses/address.ts";
import type { CniResult } from "../../lib/cni/protocol.ts";
import { parseResult } from "../../lib/cni/result.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../../lib/cni/version.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { parseJson } from "../../lib/json/parse.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { chainedResult, isChained } from "../../main-plugin/attach-chained.ts";
import { type NetworkCall, resolveAddCall, resolveAttachmentCall } from "../../main-plugin/call.ts";
import { narrowAddress } from "../../main-plugin/ipam-source.ts";
import { desiredStateOf, planAttachment } from "../../main-plugin/plan.ts";
import { routersFor } from "../../main-plugin/plan-endpoint-form.ts";
import type { HeldAddresses } from "../../main-plugin/residence.ts";
import { serve } from "../../main-plugin/serve.ts";
import { type EndpointRecord, isCommitted, type RecordedAddress } from "../endpoints/record/endpoint-record.ts";
import { encodeRecord } from "../endpoints/record/record-codec.ts";
import { RecordingJournal } from "./add-journal.ts";
import type { ServedCall } from "./call.ts";
import { callText } from "./call-body.ts";
import { removeAttachment } from "./del-operation.ts";
import type { AttachmentRecords } from "./records.ts";
import { recordedOf } from "./sandbox.ts";

export interface Outcome {
  /** What direct mode would print. */
  readonly printed?: string | undefined;
  readonly endpointId?: number;
}

/**
 * @param signal aborts when the ADD shall be taken back: it is, up to the commit
 * @throws what the flow throws; nothing of a first ADD is left then, or its removal goes on behind
 */
export async function addAttachment(
  served: ServedCall,
  sandbox: Sandbox | undefined,
  records: AttachmentRecords,
  signal: AbortSignal,
): Promise<Outcome> {
  const call = { ...served.call, signal, residence: sandbox === undefined ? {} : { sandbox } };
  const known = await settledRecord(served, records, sandbox);
  const held = known?.request?.digest === served.digest ? heldBy(known, call) : undefined;
  if (known !== undefined && held !== undefined && sandbox !== undefined && (await stillStands(known, held, sandbox, served, call))) {
    served.log.info("the attachment is there: the result of its ADD is repeated");
    return { printed: known.result, endpointId: known.id };
  }
  const record = known ?? (await records.begin(newAttachment(served, sandbox)));
  const journal = new RecordingJournal({
    records,
    record: { ...record, ...newAttachment(served, sandbox), ...(known === undefined ? {} : { previous: encodeRecord(known) }) },
    isBegun: known === undefined,
    grant: grantOf(call),
    cniVersion: call.request.cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT,
    signal,
  });
  const residence = { ...call.residence, journal, ...(held === undefined ? {} : { held }) };
  try {
    const printed = await serve({ ...call, residence }, served.node);
    return { printed, endpointId: record.id };
  } catch (error) {
    await takeBack(error, known, journal.record, served, records, sandbox);
    throw error;
  }
}

/** What another operation of this attachment left undone goes first. @returns the record of an attachment that is there */
async function settledRecord(
  served: ServedCall,
  records: AttachmentRecords,
  sandbox: Sandbox | undefined,
): Promise<EndpointRecord | undefined> {
  const known = records.find(served.attachment);
  if (known === undefined || isCommitted(known)) return known;
  served.log.info("what is left of an earlier operation is removed first", { phase: known.phase });
  await removeAttachment(served, records, sandbox);
  return undefined;
}

function newAttachment({ attachment, digest, configDigest, body, call, traceparent }: ServedCall, sandbox: Sandbox | undefined) {
  const { cniVersion } = call.request;
  return {
    attachment,
    netns: recordedOf(body.netns, sandbox),
    podInterface: attachment.ifname,
    ...linkOf(call),
    ...podOf(call),
    ...(traceparent === undefined ? {} : { traceparent }),
    request: { digest, cniVersion: cniVersion ?? "", configDigest, call: callText(body) },
  };
}

/** The addresses of another plugin's interface are not the agent's to give back (A§3.8). */
function linkOf(call: NetworkCall): Pick<EndpointRecord, "linkForm"> & Partial<Pick<EndpointRecord, "addresses">> {
  if (!isChained(call)) return { linkForm: call.config.linkForm === "endpoint" ? "endpoint" : "routed" };
  const addresses = chainedResult(call).result.ips.map((ip): RecordedAddress => {
    const { address } = narrowAddress(ip.address);
    return { address: formatAddress(address), family: address.family, grant: "external" };
  });
  return { linkForm: "attached", addresses };
}

/** Arguments that are not valid fail the flow, with its own words. */
function podOf(call: NetworkCall): Pick<EndpointRecord, "pod"> {
  try {
    const { namespace, pod } = resolveAttachmentCall(call).identity;
    return pod === "" ? {} : { pod: `${namespace}/${pod}` };
  } catch {
    return {};
  }
}

/** What a committed record says that the attachment holds; `undefined` when it does not say it. */
function heldBy({ desired, result }: EndpointRecord, { request }: NetworkCall): HeldAddresses | undefined {
  if (desired === undefined || result === undefined) return undefined;
  const { ips, routes, dns }: CniResult = parseResult(parseJson(result), request.cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT);
  const addresses = ips.map((ip) => narrowAddress(ip.address));
  return { addresses, hostRoutes: desired.host.routes.length > 0, routes, dns };
}

/** Whether the kernel still has what the recorded result says, in this very sandbox. */
async function stillStands(
  { netns, podMac }: EndpointRecord,
  held: HeldAddresses,
  sandbox: Sandbox,
  served: ServedCall,
  call: NetworkCall,
): Promise<boolean> {
  if (netns.path !== sandbox.path || !sandbox.is(netns)) return false;
  const addCall = resolveAddCall(call);
  const desired = desiredStateOf(
    planAttachment(addCall, undefined, await routersFor(addCall, served.node)),
    held.addresses,
    held.hostRoutes,
  );
  const differences = await served.node.dataplane.inspect(sandbox, desired, { mac: podMac });
  for (const { side, object, wanted, found } of differences) {
    served.log.info(`made again: ${side} ${object}: wanted ${wanted}, found ${found}`);
  }
  return differences.length === 0;
}

export function grantOf({ config }: NetworkCall): RecordedAddress["grant"] {
  switch (config.ipam.type) {
    case "tortie-ipam":
    case "calico-ipam":
      return "block";
    case "tortie-host-scope":
      return "file";
    default:
      return "external";
  }
}

/**
 * The flow has taken back what it made. What it may have left, a record that others read or something that it could not take back, is
 * removed as a DEL removes it; the record goes last. Of a repeated ADD nothing that was there before is given up.
 */
async function takeBack(
  error: unknown,
  known: EndpointRecord | undefined,
  record: EndpointRecord,
  served: ServedCall,
  records: AttachmentRecords,
  sandbox: Sandbox | undefined,
): Promise<void> {
  if (isCommitted(record)) return;
  if (known !== undefined) {
    await records.write(known);
    return;
  }
  const isClean = record.phase !== "adding:endpoint" && !(error instanceof SuppressedError);
  if (isClean) {
    await records.discard(record);
    return;
  }
  try {
    await removeAttachment(served, records, sandbox);
  } catch (cause) {
    served.log.error(`what the ADD left is removed later: ${messageOf(cause)}`);
    throw new SuppressedError(cause, error, "what the ADD left could not be removed");
  }
}
