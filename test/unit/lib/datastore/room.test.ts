/** Which blocks an address may still come from. */
import { readBlocksWithRoom } from "../../../../lib/datastore/room.ts";
import { MemoryStore } from "../../../support/memory-datastore.ts";
import { emptyBlock, fullBlock, sampleAffinity, sampleBlock } from "../../../support/samples.ts";

const OWNER = { type: "host", name: "worker-1" } as const;
const CIDRS = { full: "10.40.0.0/26", cooling: "10.40.0.64/29", free: "10.40.0.128/29", foreign: "10.40.1.0/29", missing: "10.40.2.0/29" };

describe("the blocks of an owner with room", () => {
  it("are those with a free address or one in cooldown, and still the owner's", async () => {
    const store = new MemoryStore().connect();
    for (const cidr of Object.values(CIDRS)) {
      const row = sampleAffinity(OWNER.name, cidr);
      await store.affinities.create(row, row);
    }
    await store.blocks.create(CIDRS.full, fullBlock(CIDRS.full, OWNER.name));
    await store.blocks.create(CIDRS.cooling, sampleBlock({ cidr: CIDRS.cooling, unallocated: [] }));
    await store.blocks.create(CIDRS.free, emptyBlock(CIDRS.free, 8, { affinity: OWNER }));
    await store.blocks.create(CIDRS.foreign, emptyBlock(CIDRS.foreign, 8, { affinity: { type: "host", name: "worker-2" } }));

    const found = await readBlocksWithRoom(store, OWNER, 4);
    expect(found.map(({ value }) => value.cidr)).toEqual([CIDRS.free, CIDRS.cooling].sort());
    expect(await readBlocksWithRoom(store, { type: "virtual", name: OWNER.name }, 4)).toEqual([]);
  });
});
