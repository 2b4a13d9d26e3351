/** Allocations against endpoints: an address that is taken for a workload is used by one (invariant 1 of I§5.5). */

import { sequenceOf } from "../ipam-plugin/allocator/block.ts";
import { settle } from "../ipam-plugin/allocator/handle.ts";
import { ReleasePart } from "../ipam-plugin/allocator/release-by-handle.ts";
import { AGAIN } from "../ipam-plugin/allocator/types.ts";
import { parseGoTimestamp } from "../ipam-plugin/workload.ts";
import { parseAddress } from "../lib/addresses/address.ts";
import type { Versioned } from "../lib/datastore/datastore.ts";
import { sanitised } from "../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../lib/workload/endpoint.ts";
import { isMachineHandle } from "../lib/workload/identity.ts";
import { WINDOWS_RESERVED_HANDLE } from "./handles.ts";
import {
  count,
  enumerate,
  GONE,
  MENDED,
  type Problem,
  problem,
  type Repair,
  type RepairOutcome,
  refused,
  type Subject,
} from "./problem.ts";
import {
  type Allocation,
  addressesOf,
  allocationAt,
  allocationsOf,
  type Judgement,
  keyOf,
  type PlacedBlock,
  placedBlock,
  textAt,
} from "./snapshot.ts";

export function unusedProblems(
  blocks: readonly PlacedBlock[],
  endpoints: readonly Versioned<WorkloadEndpoint>[],
  judgement: Judgement,
): readonly Problem[] {
  const used = new Set(endpoints.flatMap(({ value }) => addressesOf(value).map(keyOf)));
  const allocations = blocks.flatMap(allocationsOf).filter(belongsToWorkload);
  const recorders = new Recorders(endpoints, allocations);
  const unused = allocations.filter((allocation) => !used.has(addressKey(allocation)));
  const isJudged = (allocation: Allocation) => judgement.isStrict || recorders.recordThoseOf(allocation);
  const judged = unused.filter(isJudged);
  const unjudged = Map.groupBy(
    unused.filter((allocation) => !isJudged(allocation)),
    placeOf,
  );
  return [...judged.map((allocation) => unusedProblem(allocation, judgement)), ...[...unjudged].map(unjudgedIn)];
}

/** Tells whether an endpoint must exist for the allocation: not for tunnels, load balancers, virtual machines and Windows' own. */
export function belongsToWorkload({ attribute }: Allocation): boolean {
  const { handleId = "", activeOwner = {} } = attribute;
  const isMachines = activeOwner["vmi-name"] !== undefined || isMachineHandle(handleId);
  return handleId.toLowerCase() !== WINDOWS_RESERVED_HANDLE && activeOwner.type === undefined && !isMachines;
}

/**
 * Networks whose endpoints are recorded, by node. A main plugin other than tortie records none: its addresses look unused and are not.
 * What counts is an endpoint that has been seen for the same network on the same node.
 */
class Recorders {
  readonly #nodes: ReadonlySet<string>;
  readonly #places: ReadonlySet<string>;

  constructor(endpoints: readonly Versioned<WorkloadEndpoint>[], allocations: readonly Allocation[]) {
    this.#nodes = new Set(endpoints.map(({ value }) => value.node));
    const byAddress = new Map(allocations.map((allocation) => [addressKey(allocation), allocation]));
    const seen = endpoints.flatMap(({ value }) => addressesOf(value).flatMap((address) => byAddress.get(keyOf(address)) ?? []));
    this.#places = new Set(seen.map(placeOf));
  }

  recordThoseOf(allocation: Allocation): boolean {
    const { attribute, placed } = allocation;
    if (attribute.handleId !== undefined) return this.#places.has(placeOf(allocation));
    // Without a handle, the address counts for the node that owns the block.
    const node = attribute.activeOwner?.node ?? placed.block.affinity?.name;
    return node === undefined ? this.#nodes.size > 0 : this.#nodes.has(node);
  }
}

/** Writes "network pods on node worker-1": the network is what stands before the container id in a handle (I§2.5). */
function placeOf({ attribute }: Allocation): string {
  const { handleId = "", activeOwner } = attribute;
  return `network ${handleId.slice(0, Math.max(handleId.lastIndexOf("."), 0))} on node ${activeOwner?.node ?? ""}`;
}

function unusedProblem(allocation: Allocation, { nowMs, graceMs }: Judgement): Problem {
  const { placed, ordinal, attribute } = allocation;
  const address = textAt(placed, ordinal);
  const sequenceNumber = sequenceOf(placed.block, ordinal);
  const age = ageMs(allocation, nowMs);
  const isYoung = age !== undefined && age < graceMs;
  const holder = attribute.handleId === undefined ? "without a handle" : `to handle ${attribute.handleId}`;
  const where = attribute.activeOwner?.node === undefined ? "" : ` on node ${attribute.activeOwner.node}`;
  const young = isYoung ? "; it is young, its ADD may be under way" : "";
  return problem("address-unused", {
    object: `address ${address}`,
    message: `is allocated ${holder}${where}, but no endpoint uses it${young}`,
    addresses: [address],
    evidence: `${attribute.handleId} ${sequenceNumber}`,
    severity: isYoung ? "note" : "problem",
    isRepairable: !isYoung,
    subject: { type: "allocation", address, cidr: placed.block.cidr, handle: attribute.handleId, sequenceNumber },
  });
}

function unjudgedIn([place, allocations]: readonly [string, readonly Allocation[]]): Problem {
  const addresses = allocations.map(({ placed, ordinal }) => textAt(placed, ordinal));
  return problem("addresses-unjudged", {
    object: place,
    message: `records no endpoint, so nobody can say who uses its ${count(addresses.length, "address", "addresses")} ${enumerate(addresses)}`,
    addresses,
    // More addresses come and go without making it another note.
    evidence: "",
    severity: "note",
    subject: { type: "place" },
  });
}

/** Tells the age by the attribute `timestamp` (I§1.6); `undefined` when that cannot be read. */
function ageMs({ attribute }: Allocation, nowMs: number): number | undefined {
  const then = parseGoTimestamp(attribute.activeOwner?.timestamp);
  return then === undefined ? undefined : nowMs - then;
}

function addressKey({ placed, ordinal }: Allocation): string {
  const { family, value } = placed.prefix.address;
  return keyOf({ family, value: value + BigInt(ordinal) });
}

/**
 * Exceeds what any ADD takes: 90 s for the addresses (I§1.8), a minute for the rest. Its endpoint is written last, so that a younger address
 * may get one the next moment, whatever grace the check was given.
 */
const LONGEST_ADD_MS = 5 * 60 * 1000;

/** Releases an address that no endpoint uses, unless its ADD may be under way. */
export async function releaseUnused(
  { operation, nowMs }: Repair,
  subject: Extract<Subject, { type: "allocation" }>,
): Promise<RepairOutcome | typeof AGAIN> {
  const { blocks, endpoints } = operation.datastore;
  const stored = await blocks.get(subject.cidr);
  const placed = stored === undefined ? undefined : placedBlock(stored);
  const address = parseAddress(subject.address);
  if (stored === undefined || placed === undefined || address === undefined) return GONE;
  const ordinal = Number(address.value - placed.prefix.address.value);
  const allocation = allocationAt(placed, ordinal);
  if (allocation === undefined || !belongsToWorkload(allocation)) return GONE;
  if (allocation.attribute.handleId !== subject.handle || sequenceOf(stored.value, ordinal) !== subject.sequenceNumber) return GONE;

  // Read after the block: an endpoint that is written from here on belongs to an ADD that had the address all the time.
  const used = (await endpoints.list()).some(({ value }) => addressesOf(value).some((other) => keyOf(other) === keyOf(address)));
  if (used) return GONE;
  if ((ageMs(allocation, nowMs) ?? LONGEST_ADD_MS) < LONGEST_ADD_MS)
    return refused("it is younger than five minutes: its ADD may be under way");

  const choose = () => ({ ordinals: [ordinal], newSequence: stored.value.sequenceNumber });
  if ((await operation.writer.write(new ReleasePart(operation, subject.cidr, { choose }), stored)) === AGAIN) return AGAIN;
  if (subject.handle !== undefined) await settle(operation, sanitised(subject.handle), subject.cidr);
  return MENDED;
}
