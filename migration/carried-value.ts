/** The part of a stored value that every store can hold, and its text for comparing: equal texts are equal values. */
import type { AllocationAttribute, Block, BlockAffinity, IPPool } from "../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../lib/workload/workload-endpoint.ts";

/**
 * Deletion and the condition `Allocatable` belong to one store's controllers: a pool that is being deleted gives no addresses in any store.
 */
export function carriedPool({ allocatable: _, deleting, ...pool }: IPPool): IPPool {
  return { ...pool, disabled: pool.disabled || deleting, deleting: false };
}

/** Spread, because some stores decode parts of a block at first use. */
export function carriedBlock(block: Block): Block {
  const { affinityClaimTime, ...others } = { ...block };
  return { ...others, ...(affinityClaimTime ? { affinityClaimTime } : {}), attributes: block.attributes.map(carriedAttribute) };
}

/** An owner without attributes is left out by some stores and kept by others. */
function carriedAttribute({ handleId, activeOwner, alternateOwner, releasedAt }: AllocationAttribute): AllocationAttribute {
  return {
    ...(handleId === undefined ? {} : { handleId }),
    ...(isEmpty(activeOwner) ? {} : { activeOwner }),
    ...(isEmpty(alternateOwner) ? {} : { alternateOwner }),
    ...(releasedAt === undefined ? {} : { releasedAt }),
  };
}

function isEmpty(owner: Readonly<Record<string, string>> | undefined): owner is undefined {
  return owner === undefined || Object.keys(owner).length === 0;
}

/** Labels are each store's own. */
export function carriedAffinity(affinity: BlockAffinity): BlockAffinity {
  return { ...affinity, labelled: true };
}

/** What a view of a pod adds is not stored. */
export function carriedEndpoint({ annotations: _, qosControls: __, isClaimed: ___, ...endpoint }: WorkloadEndpoint): WorkloadEndpoint {
  return endpoint;
}

/** Of a record in annotations. */
export function recordOfEndpoint({ containerID, ipNetworks }: WorkloadEndpoint): object {
  return { containerID, ipNetworks };
}

/** Text with sorted members; `undefined` ones left out, all digits of long integers kept. */
export function canonicalText(value: unknown): string {
  return JSON.stringify(ordered(value));
}

function ordered(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, ordered(member)]));
}
