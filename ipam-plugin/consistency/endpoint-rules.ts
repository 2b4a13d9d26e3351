/** Endpoints against allocations: every address in use is allocated to its user, and every allocated address has one (invariants 1 to 3 of I§5.5). */
import { contains, formatAddress } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { WorkloadEndpoint } from "../../lib/datastore/resources.ts";
import { sequenceOf } from "../allocator/block.ts";
import { WINDOWS_RESERVED_HANDLE } from "./handle-rules.ts";
import { count, enumerate, type Problem, problem } from "./problem.ts";
import {
  type Allocation,
  addressesOf,
  allocationAt,
  allocationsOf,
  BlockIndex,
  hasFamily,
  type Judgement,
  keyOf,
  type PlacedBlock,
  type PlacedPool,
  textAt,
} from "./snapshot.ts";

type StoredEndpoint = Versioned<WorkloadEndpoint>;

export function endpointProblems(
  blocks: readonly PlacedBlock[],
  pools: readonly PlacedPool[],
  endpoints: readonly StoredEndpoint[],
  judgement: Judgement,
): readonly Problem[] {
  const index = new BlockIndex(blocks);
  return [
    ...endpoints.flatMap((endpoint) => ofEndpoint(endpoint, index, pools)),
    ...usedTwice(endpoints),
    ...unusedAddresses(blocks, endpoints, judgement),
  ];
}

/** What is wrong with the addresses that one endpoint uses. */
export function ofEndpoint({ value, revision }: StoredEndpoint, blocks: BlockIndex, pools: readonly PlacedPool[]): readonly Problem[] {
  return addressesOf(value).flatMap((address) => {
    const text = formatAddress(address);
    const found = (
      kind: "address-not-allocated" | "address-outside-pools" | "address-of-another" | "address-without-handle",
      message: string,
    ) => [
      problem(kind, {
        object: `address ${text} of endpoint ${nameOf(value)}`,
        message,
        addresses: [text],
        evidence: `${message} ${revision}`,
        subject: { type: "endpoint", key: { namespace: value.namespace, name: value.name }, address: text },
      }),
    ];
    const holding = blocks.holding(address);
    const taken = holding.flatMap((placed) => allocationAt(placed, Number(address.value - placed.prefix.address.value)) ?? []);
    if (taken.some((allocation) => isHeldBy(allocation, value))) return [];
    const [first] = taken;
    if (first?.attribute.handleId !== undefined)
      return found("address-of-another", `is allocated to handle ${first.attribute.handleId}, another workload`);
    if (first !== undefined) return found("address-without-handle", "is allocated without a handle: no DEL would find it");
    if (pools.some(({ prefix }) => contains(prefix, address)) || holding.length > 0) {
      return found("address-not-allocated", "is not allocated: it could be given to another workload");
    }
    // Where no pool is of the family, its addresses come from another IPAM plugin.
    return hasFamily(pools, address.family) ? found("address-outside-pools", "lies in no pool") : [];
  });
}

/** Whether an allocation is that of an endpoint: by its handle (I§2.5), or by the pod that its attributes name. */
function isHeldBy({ attribute }: Allocation, endpoint: WorkloadEndpoint): boolean {
  const { handleId, activeOwner, alternateOwner } = attribute;
  if (handleId === undefined) return false;
  const { containerID, namespace, pod } = endpoint;
  if (containerID === "" && pod === "") return true;
  if (containerID !== "" && (handleId === containerID || handleId.endsWith(`.${containerID}`))) return true;
  if (pod === "") return false;
  return (
    handleId === `${namespace}.${pod}` || [activeOwner, alternateOwner].some((owner) => owner?.pod === pod && owner.namespace === namespace)
  );
}

function usedTwice(endpoints: readonly StoredEndpoint[]): readonly Problem[] {
  const users = new Map<string, { readonly text: string; readonly names: Set<string> }>();
  for (const { value } of endpoints) {
    for (const address of addressesOf(value)) {
      const user = users.get(keyOf(address));
      if (user === undefined) users.set(keyOf(address), { text: formatAddress(address), names: new Set([nameOf(value)]) });
      else user.names.add(nameOf(value));
    }
  }
  return [...users.values()].flatMap(({ text, names }) =>
    names.size < 2
      ? []
      : problem("address-used-twice", {
          object: `address ${text}`,
          message: `is used by ${count(names.size, "endpoint")}: ${enumerate([...names])}`,
          addresses: [text],
          subject: { type: "address", address: text },
        }),
  );
}

function unusedAddresses(blocks: readonly PlacedBlock[], endpoints: readonly StoredEndpoint[], judgement: Judgement): readonly Problem[] {
  const used = new Set(endpoints.flatMap(({ value }) => addressesOf(value).map(keyOf)));
  const recording = new Set(endpoints.map(({ value }) => value.node));
  const unjudged = new Map<string, string[]>();
  const problems: Problem[] = [];
  for (const placed of blocks) {
    for (const allocation of allocationsOf(placed)) {
      if (!belongsToWorkload(allocation) || used.has(addressKey(allocation))) continue;
      const { node } = allocation.attribute.activeOwner ?? {};
      const age = ageMs(allocation, judgement.nowMs);
      if (node !== undefined && !recording.has(node) && !judgement.isStrict) {
        const others = unjudged.get(node) ?? [];
        unjudged.set(node, others);
        others.push(textAt(placed, allocation.ordinal));
      } else {
        problems.push(unused(allocation, age !== undefined && age < judgement.graceMs));
      }
    }
  }
  return [...problems, ...[...unjudged].map(([node, addresses]) => unjudgedOn(node, addresses))];
}

/** Whether an endpoint must exist for the allocation: not for tunnels, load balancers, VMs between two pods, and Windows' own. */
export function belongsToWorkload({ attribute }: Allocation): boolean {
  const { handleId, activeOwner = {} } = attribute;
  return handleId?.toLowerCase() !== WINDOWS_RESERVED_HANDLE && activeOwner.type === undefined && activeOwner["vmi-name"] === undefined;
}

export function unused(allocation: Allocation, isYoung: boolean): Problem {
  const { placed, ordinal, attribute } = allocation;
  const address = textAt(placed, ordinal);
  const sequenceNumber = sequenceOf(placed.block, ordinal);
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

function unjudgedOn(node: string, addresses: readonly string[]): Problem {
  return problem("addresses-unjudged", {
    object: `node ${node}`,
    message: `records no endpoint, so nobody can say who uses its ${count(addresses.length, "address", "addresses")} ${enumerate(addresses)}`,
    addresses,
    evidence: "",
    severity: "note",
    subject: { type: "node", name: node },
  });
}

/** By the attribute `timestamp`, "2026-08-22 13:33:20.123456789 +0000 UTC" (I§1.6); `undefined` when there is none to read. */
export function ageMs({ attribute }: Allocation, nowMs: number): number | undefined {
  const [, date, time] = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) \+0000 UTC/.exec(attribute.activeOwner?.timestamp ?? "") ?? [];
  const then = date === undefined ? Number.NaN : Date.parse(`${date}T${time}Z`);
  return Number.isNaN(then) ? undefined : nowMs - then;
}

function addressKey({ placed, ordinal }: Allocation): string {
  const { family, value } = placed.prefix.address;
  return keyOf({ family, value: value + BigInt(ordinal) });
}

function nameOf({ namespace, name }: WorkloadEndpoint): string {
  return `${namespace}/${name}`;
}
