/** Whether the owners of an address are those that somebody expects (I§1.9): the condition of a compare-and-swap. */
import type { AllocationAttribute } from "../../lib/datastore/resources.ts";
import type { OwnerAttributes, OwnerPreconditions } from "./allocator.ts";

type Owners = Pick<AllocationAttribute, "activeOwner" | "alternateOwner">;

/** @returns the first owner that is not the expected one */
export function unexpectedOwner(holder: Owners | undefined, expected: OwnerPreconditions = {}): "active" | "alternate" | undefined {
  if (!isAsExpected(holder?.activeOwner, expected.active)) return "active";
  return isAsExpected(holder?.alternateOwner, expected.alternate) ? undefined : "alternate";
}

/** Whether all owners that an address has satisfy `isTheirs`; an address without one is asked about with no attributes. */
export function hasOwners(holder: Owners | undefined, isTheirs: (owner: OwnerAttributes) => boolean): boolean {
  return isTheirs(holder?.activeOwner ?? {}) && (holder?.alternateOwner === undefined || isTheirs(holder.alternateOwner));
}

/** An expectation names the pairs that must be there; one without pairs means that there must be no owner. */
function isAsExpected(owner: OwnerAttributes = {}, expected: OwnerAttributes | undefined): boolean {
  if (expected === undefined) return true;
  const pairs = Object.entries(expected);
  return pairs.length === 0 ? Object.keys(owner).length === 0 : pairs.every(([key, value]) => owner[key] === value);
}
