import {
  allocate,
  freeOrdinals,
  isEmpty,
  newBlock,
  nextSequence,
  normalise,
  ordinalsOf,
  release,
  withOrdinalAttribute,
  withoutOwner,
} from "../../../../ipam-plugin/allocator/block.ts";
import { Reservations } from "../../../../ipam-plugin/allocator/reservations.ts";
import type { AllocationAttribute, Block } from "../../../../lib/datastore/resources.ts";
import { emptyBlock, sampleBlock } from "../../../support/samples.ts";

const NONE = new Reservations([]);
const NOW = Date.parse("2026-08-22T14:00:00.250Z");
/** As a grant of up to `count` addresses does. */
function take(block: Block, count: number, attribute: AllocationAttribute, reservations: Reservations) {
  const ordinals = freeOrdinals(block, reservations).slice(0, count);
  return { block: allocate(block, ordinals, attribute), ordinals };
}
const attribute = { handleId: "net1.c1", activeOwner: { node: "node-a" } };

describe("a new block", () => {
  it("has every ordinal free, in order, and its clock as first sequence number", () => {
    expect(newBlock("10.0.0.0/30", { type: "host", name: "node-a" }, NOW, 17n)).toEqual({
      cidr: "10.0.0.0/30",
      affinity: { type: "host", name: "node-a" },
      affinityClaimTime: "2026-08-22T14:00:00Z",
      allocations: [null, null, null, null],
      unallocated: [0, 1, 2, 3],
      attributes: [],
      sequenceNumber: 17n,
      sequenceNumberForAllocation: {},
    });
  });
});

describe("taking ordinals", () => {
  it("goes by the queue, not by the numbers", () => {
    const { block, ordinals } = take(emptyBlock("10.0.0.0/30", 4, { unallocated: [2, 0, 3, 1] }), 2, attribute, NONE);
    expect(ordinals).toEqual([2, 0]);
    expect(block.unallocated).toEqual([3, 1]);
    expect(block.allocations).toEqual([0, null, 0, null]);
  });

  it("leaves reserved ordinals at their place in the queue", () => {
    const reserved = new Reservations([{ name: "r", reservedCIDRs: ["10.0.0.0/31"] }]);
    const { block, ordinals } = take(emptyBlock("10.0.0.0/30", 4), 1, attribute, reserved);
    expect(ordinals).toEqual([2]);
    expect(block.unallocated).toEqual([0, 1, 3]);
  });

  it("records the sequence number that the block had before the write", () => {
    const { block } = take(emptyBlock("10.0.0.0/30", 4, { sequenceNumber: 1000n }), 1, attribute, NONE);
    expect(block.sequenceNumberForAllocation).toEqual({ 0: 1000n });
    expect(nextSequence(block, 0n).sequenceNumber).toBe(1001n);
  });

  it("shares one attribute among equal allocations, and not among others", () => {
    const first = take(emptyBlock("10.0.0.0/30", 4), 2, attribute, NONE).block;
    const second = take(first, 1, { ...attribute, activeOwner: { node: "node-b" } }, NONE).block;
    expect(second.allocations).toEqual([0, 0, 1, null]);
    expect(take(second, 1, { handleId: "net1.c1", activeOwner: { node: "node-a" } }, NONE).block.allocations).toEqual([0, 0, 1, 0]);
  });

  it("gives as many as there are", () => {
    expect(take(emptyBlock("10.0.0.0/30", 4, { unallocated: [3] }), 2, attribute, NONE).ordinals).toEqual([3]);
  });
});

describe("a damaged block", () => {
  it("keeps an ordinal that is allocated and listed as free (recording unallocated-double)", () => {
    const block = emptyBlock("10.0.0.0/30", 4, {
      allocations: [null, 0, null, null],
      unallocated: [1, 2],
      attributes: [{ handleId: "net1.z" }],
      sequenceNumberForAllocation: { 1: 999n },
    });
    const taken = take(block, 1, attribute, NONE);
    expect(taken.ordinals).toEqual([2]);
    expect(ordinalsOf(taken.block, "net1.z")).toEqual([1]);
    expect(taken.block.unallocated).toEqual([]);
  });

  it("hands out an ordinal once that is listed twice, and none that is out of range", () => {
    const block = emptyBlock("10.0.0.0/30", 4, { unallocated: [7, -1, 1, 1, 3] });
    const taken = take(block, 4, attribute, NONE);
    expect(taken.ordinals).toEqual([1, 3]);
    expect(taken.block.unallocated).toEqual([]);
  });

  it("keeps an allocation whose attribute does not exist, and gives it no other's", () => {
    const block = emptyBlock("10.0.0.0/30", 4, { allocations: [5, null, null, null], unallocated: [1, 2, 3] });
    const taken = take(block, 1, attribute, NONE);
    expect(taken.ordinals).toEqual([1]);
    expect(taken.block.attributes).toEqual([attribute, {}]);
    expect(taken.block.allocations).toEqual([1, 0, null, null]);
  });

  it("does not hand out an ordinal that is in neither list (recording unallocated-missing)", () => {
    expect(freeOrdinals(emptyBlock("10.0.0.0/30", 4, { unallocated: [2] }), NONE)).toEqual([2]);
  });

  it("starts its sequence anew beyond 63 bits (recording sequence-max)", () => {
    expect(nextSequence(sampleBlock({ sequenceNumber: 2n ** 63n - 1n }), 17n).sequenceNumber).toBe(17n);
    expect(nextSequence(sampleBlock({ sequenceNumber: 2n ** 63n - 2n }), 17n).sequenceNumber).toBe(2n ** 63n - 1n);
    expect(nextSequence(sampleBlock({ sequenceNumber: 2n ** 53n }), 17n).sequenceNumber).toBe(2n ** 53n + 1n);
  });
});

describe("releasing ordinals", () => {
  it("puts them under one new attribute that holds the time only, and drops the old one", () => {
    const block = release(sampleBlock(), [1], NOW);
    expect(block.attributes).toEqual([
      sampleBlock().attributes[0],
      { releasedAt: "2026-08-22T13:41:07Z" },
      { releasedAt: "2026-08-22T14:00:00Z" },
    ]);
    expect(block.allocations).toEqual([0, 2, null, 1, null, null, null, null]);
    expect(block.unallocated).toEqual(sampleBlock().unallocated);
  });

  it("keeps their sequence numbers, unless new ones are given", () => {
    expect(release(sampleBlock(), [1], NOW).sequenceNumberForAllocation).toEqual(sampleBlock().sequenceNumberForAllocation);
    expect(release(sampleBlock(), [1], NOW, 5n).sequenceNumberForAllocation[1]).toBe(5n);
  });

  it("leaves the other addresses of a shared attribute as they are", () => {
    const block = take(emptyBlock("10.0.0.0/30", 4), 3, attribute, NONE).block;
    expect(ordinalsOf(release(block, [1], NOW), "net1.c1")).toEqual([0, 2]);
  });
});

describe("cooldown", () => {
  const cold = release(take(emptyBlock("10.0.0.0/30", 4), 2, attribute, NONE).block, [0], NOW);

  it("of zero frees what is released in the same write", () => {
    const block = normalise(cold, 0, NOW);
    expect(block.allocations).toEqual([null, 0, null, null]);
    expect(block.unallocated).toEqual([2, 3, 0]);
    expect(block.sequenceNumberForAllocation).toEqual({ 1: cold.sequenceNumber });
    expect(block.attributes).toEqual([attribute]);
  });

  it("keeps the ordinal out of the queue until it is over, to the millisecond or later", () => {
    expect(normalise(cold, 60, NOW + 59_999)).toEqual(cold);
    const stored = Date.parse("2026-08-22T14:00:00Z");
    expect(normalise(cold, 60, stored + 60_999)).toEqual(cold);
    expect(normalise(cold, 60, stored + 61_000).unallocated).toEqual([2, 3, 0]);
    expect(normalise(cold, 60, NOW + 61_000).unallocated).toEqual([2, 3, 0]);
  });

  it("never ends before the address has been free for its time, though times are stored in seconds", () => {
    // Released at .250, stored as .000: a reader that trusts the text would hand it out a quarter of a second early.
    expect(normalise(cold, 60, NOW + 60_000 - 1).unallocated).toEqual([2, 3]);
  });

  it("ends in ascending order of the ordinals, at the tail of the queue", () => {
    const block = release(release(take(emptyBlock("10.0.0.0/29", 8), 6, attribute, NONE).block, [4, 1], NOW), [3], NOW - 30_000);
    expect(normalise(block, 60, NOW + 120_000).unallocated).toEqual([6, 7, 1, 3, 4]);
  });

  it("leaves a time in the future alone, even when there is none configured (recording cooldown-zero)", () => {
    const future = release(cold, [1], NOW + 3_600_000);
    expect(normalise(future, 0, NOW).allocations).toEqual([null, 0, null, null]);
  });

  it("frees an ordinal whose time cannot be read", () => {
    const block = sampleBlock({ attributes: [...sampleBlock().attributes.slice(0, 2), { releasedAt: "yesterday" }] });
    expect(normalise(block, 600, NOW).allocations[3]).toBeNull();
  });

  it("makes a block non-empty until it is over", () => {
    const block = release(take(emptyBlock("10.0.0.0/30", 4), 1, attribute, NONE).block, [0], NOW);
    expect(isEmpty(block)).toBe(false);
    expect(isEmpty(normalise(block, 0, NOW))).toBe(true);
  });
});

describe("a block", () => {
  it("is empty with nothing but ordinals that Windows reserves, whatever the case of their handle", () => {
    const reserved = { handleId: "Windows-Reserved-IPAM-handle" };
    expect(isEmpty(emptyBlock("10.0.0.0/30", 4, { allocations: [0, null, null, 0], unallocated: [1, 2], attributes: [reserved] }))).toBe(
      true,
    );
  });

  it("finds the ordinals of a handle that was stored with a carriage return", () => {
    const block = allocate(emptyBlock("10.0.0.0/30", 4), [2], { handleId: "net1.c1\r" });
    expect(ordinalsOf(block, "net1.c1")).toEqual([2]);
  });

  it("loses the time of the claim with its owner", () => {
    expect(withoutOwner(sampleBlock())).not.toHaveProperty("affinity");
    expect(withoutOwner(sampleBlock())).not.toHaveProperty("affinityClaimTime");
  });

  it("gives one of two addresses of an attribute another one", () => {
    const block = take(emptyBlock("10.0.0.0/30", 4), 2, attribute, NONE).block;
    const changed = withOrdinalAttribute(block, 1, { ...attribute, alternateOwner: { node: "node-b" } });
    expect(changed.attributes).toEqual([attribute, { ...attribute, alternateOwner: { node: "node-b" } }]);
    expect(changed.allocations).toEqual([0, 1, null, null]);
  });
});
