/**
 * Compares the link of an endpoint with its record and mends it (A§5.5). Does nothing in a sandbox that is not provably the recorded one,
 * changes nothing inside one that has its link, and gives a new link only addresses that are still granted (design, invariant 16).
 */

import type { AppliedLink, Dataplane, RecordedPair } from "../../dataplane/dataplane.ts";
import { type DesiredState, type Difference, lacksPair } from "../../dataplane/desired-state.ts";
import type { EndpointRecord, RecordedAddress } from "../../handover/record.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { inTime } from "../../lib/system/waiting.ts";
import type { Mendable } from "./mending.ts";
import { isSandboxGone, isUnproven, openRecorded } from "./sandbox.ts";

/**
 * Keeps apart what the agent and a plugin that works without it do to one attachment (A§11.6).
 * @returns what holds the attachment, once no plugin works on it; `undefined` when its DEL was served or waits: its link is not made again
 * @throws TortieError `attachment-locked`; the signal's reason
 */
export type HoldAttachment = (attachment: AttachmentId, signal: AbortSignal) => Promise<Disposable | undefined>;

export interface GrantWitness {
  /** Asks the store, the grant file or the IPAM plugin what it says now. @throws Error when it cannot be asked */
  isGranted(record: EndpointRecord, address: RecordedAddress): Promise<boolean>;
}

export interface LinkParts {
  readonly dataplane: Pick<Dataplane, "apply" | "drift" | "mend">;
  /** Who says whether recorded addresses may be used again. */
  readonly grants: GrantWitness;
  readonly hold: HoldAttachment;
}

/** What others have put into the sandbox meanwhile stands in the way of a link that is made again: no try of ours changes that. */
const IN_THE_WAY: ReadonlySet<string> = new Set(["interface-exists", "route-conflict"]);

/** Limits the question whether the addresses of a link to mend are granted: an outage must not hold up a DEL, nor the rest. */
const ASK_LIMIT_MS = 5_000;

/** @throws TortieError what the dataplane throws; the signal's reason */
export async function mendLink(endpoint: Mendable, { dataplane, grants, hold }: LinkParts, signal: AbortSignal): Promise<void> {
  const { record } = endpoint;
  const { desired } = record;
  if (desired === undefined) return;
  using sandbox = provenSandbox(endpoint);
  if (sandbox === undefined) return;
  const pair = pairOf(record, desired);
  const differences = await dataplane.drift(sandbox, pair);
  signal.throwIfAborted();
  if (differences.length === 0) return;
  if (lacksPair(differences, desired)) {
    const granted = await provenAddresses(endpoint, grants);
    signal.throwIfAborted();
    if (granted === undefined) return;
    // Comes last: a plugin announces its DEL before it touches the link, and releases the addresses after that.
    using held = await hold(record.attachment, signal);
    if (held !== undefined) return await makeAgain(endpoint, sandbox, granted, desired, dataplane, signal);
    return endpoint.note("OK", "Other", "The link is gone and is not made again: the attachment was deleted without the agent");
  }
  const isGranted = await wordOfStore(endpoint, grants);
  signal.throwIfAborted();
  if (isGranted === false) return;
  const { mended, left } = await dataplane.mend(sandbox, isGranted === true ? pair : withoutRoutes(pair));
  for (const one of mended) endpoint.note("OK", "Other", `mended: ${textOf(one)}`);
  for (const one of left) endpoint.note("Warning", "Other", `not mended, it is not provably ours or others change it: ${textOf(one)}`);
  if (isGranted === true) return;
  const objects = new Set([...mended, ...left].map(({ object }) => object));
  for (const one of differences.filter(({ object }) => !objects.has(object))) {
    endpoint.note("Warning", "Other", `not mended before the store says whose the address is: ${textOf(one)}`);
  }
}

/** Leaves out the routes, whose address another pod may have meanwhile. The link is proven by its owner's name or its index. */
function withoutRoutes({ desired, ...pair }: RecordedPair): RecordedPair {
  return { ...pair, desired: { ...desired, host: { ...desired.host, routes: [] } } };
}

/** Reads from a record what to compare of the pair. */
function pairOf({ hostInterface }: EndpointRecord, desired: DesiredState): RecordedPair {
  return { desired, hostIndex: hostInterface?.index };
}

/** Lists what differs of an endpoint's link; nothing for one whose sandbox is gone. @throws TortieError as `openRecorded` and `drift` */
export async function linkDrift(record: EndpointRecord, dataplane: Pick<Dataplane, "drift">): Promise<readonly Difference[]> {
  const { desired } = record;
  if (desired === undefined || isSandboxGone(record)) return [];
  using sandbox = openRecorded(record);
  return await dataplane.drift(sandbox, pairOf(record, desired));
}

/** Says whether the kernel has everything that an endpoint wants, in its own sandbox. */
export async function isConnected(record: EndpointRecord, dataplane: Pick<Dataplane, "inspect">): Promise<boolean> {
  const { desired } = record;
  if (desired === undefined) return false;
  try {
    using sandbox = openRecorded(record);
    return (await dataplane.inspect(sandbox, desired)).length === 0;
  } catch (error) {
    if (isUnproven(error)) return false;
    throw error;
  }
}

/** @returns `undefined` when the sandbox is gone or another one, which is the sweep's to judge */
function provenSandbox(endpoint: Mendable): Sandbox | undefined {
  const { record } = endpoint;
  try {
    const sandbox = openRecorded(record);
    if (record.netns.isVisible !== true) endpoint.write({ ...record, netns: { ...record.netns, isVisible: true } });
    return sandbox;
  } catch (error) {
    if (!isUnproven(error)) throw error;
    endpoint.note("OK", "Other", `Nothing is done in the sandbox: ${error.message}`);
    return undefined;
  }
}

/** @returns `undefined` when an address is not granted to the endpoint any more: its link is not made again */
async function provenAddresses(endpoint: Mendable, grants: GrantWitness): Promise<GrantedAddresses | undefined> {
  try {
    return await GrantedAddresses.prove(endpoint.record, grants);
  } catch (error) {
    if (!(error instanceof TortieError) || error.word !== "address-lost") throw error;
    endpoint.note("Failure", "Other", `The link is gone and is not made again: ${error.message}`);
    return undefined;
  }
}

/**
 * Finds out whether the addresses of a link that stands are its endpoint's. Leaves a link as it is whose address is somebody else's, or
 * nobody's. Asks about what another plugin granted only before it is used again.
 * @returns `undefined` where nobody can be asked in time
 */
async function wordOfStore(endpoint: Mendable, grants: GrantWitness): Promise<boolean | undefined> {
  const { record } = endpoint;
  const asked = { ...record, addresses: record.addresses.filter(({ grant }) => grant !== "external") };
  const late = new Error("the store does not answer in time");
  const lost = await inTime(ASK_LIMIT_MS, late, lostAddresses(asked, grants)).catch(() => undefined);
  if (lost === undefined) return undefined;
  if (lost.length === 0) return true;
  endpoint.note("Warning", "Other", `The link is not mended: ${lost.join(", ")} not granted to it any more`);
  return false;
}

async function makeAgain(
  endpoint: Mendable,
  sandbox: Sandbox,
  granted: GrantedAddresses,
  desired: DesiredState,
  dataplane: LinkParts["dataplane"],
  signal: AbortSignal,
): Promise<void> {
  const { podMac } = endpoint.record;
  let link: AppliedLink;
  try {
    link = await dataplane.apply(sandbox, podMac === undefined ? desired : { ...desired, pod: { ...desired.pod, mac: podMac } });
  } catch (error) {
    if (!(error instanceof TortieError) || !IN_THE_WAY.has(error.word)) throw error;
    return endpoint.note("Failure", "Other", `The link is gone and cannot be made again: ${error.message}`);
  }
  if (signal.aborted) {
    // The endpoint is being removed: its DEL must not find a link that nobody knows of.
    await link[Symbol.asyncDispose]();
    signal.throwIfAborted();
  }
  const { record } = endpoint;
  const hostInterface = record.hostInterface && { ...record.hostInterface, index: link.hostIndex };
  endpoint.write({ ...record, hostInterface, linkKind: link.kind });
  endpoint.note("OK", "Other", `The link was gone and is made again with ${granted.addresses.join(", ")}, as index ${link.hostIndex}`);
}

function textOf({ side, object, wanted, found }: Difference): string {
  return `${side} ${object}: wanted ${wanted}, found ${found}`;
}

/** Proves that recorded addresses are granted: whoever makes a link with them takes this, and only `prove` makes it. */
export class GrantedAddresses {
  readonly addresses: readonly string[];

  private constructor(addresses: readonly string[]) {
    this.addresses = addresses;
  }

  /** @throws TortieError `address-lost` naming every address that is not granted; what the witness throws */
  static async prove(record: EndpointRecord, witness: GrantWitness): Promise<GrantedAddresses> {
    const lost = await lostAddresses(record, witness);
    if (lost.length === 0) return new GrantedAddresses(record.addresses.map(({ address }) => address));
    throw new TortieError("address-lost", `endpoint ${record.id}: ${lost.join(", ")} not granted to it any more, and not used again`);
  }
}

/** Lists the addresses of a record that are not granted to its endpoint any more. @throws what the witness throws */
export async function lostAddresses(record: EndpointRecord, witness: GrantWitness): Promise<readonly string[]> {
  const lost: string[] = [];
  for (const recorded of record.addresses) {
    if (recorded.isUngranted !== true && !(await witness.isGranted(record, recorded))) lost.push(recorded.address);
  }
  return lost;
}
