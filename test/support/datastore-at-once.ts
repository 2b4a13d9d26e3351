/** A driver serves many operations of one process at once: nothing is lost, mixed up or left behind. */
import type { Datastore } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import { emptyBlock, sampleAffinity } from "./samples.ts";

const BLOCK = "10.40.0.0/26";
/** So many handles are counted up, and every so many-th operation counts up the block: who meets whom is enough of a contest. */
const HANDLES = 50;
const BLOCK_WRITES_EVERY = 20;
const OWNER = { type: "host", name: "worker-1" } as const;

/** Counts `operations`, a multiple of 100, up on handles and on one block, all at once, reading and listing in between. */
export async function countAtOnce(datastore: Datastore, operations: number): Promise<void> {
  const { affinities, blocks, handles } = datastore;
  const affinity = sampleAffinity(OWNER.name, BLOCK);
  await affinities.create(affinity, affinity);
  await blocks.create(BLOCK, emptyBlock(BLOCK, 64, { affinity: OWNER, sequenceNumber: 0n }));
  await Promise.all(
    Array.from({ length: operations }, async (_, index) => {
      const id = `net.c${index % HANDLES}`;
      await untilWritten(async () => {
        const stored = await handles.get(id);
        const count = (stored?.value.blocks[BLOCK] ?? 0) + 1;
        const next = { id, blocks: { [BLOCK]: count } };
        return stored === undefined ? handles.create(id, next) : handles.update(id, next, stored.revision);
      });
      const [listed] = await affinities.listByOwner(OWNER, 4);
      expect(listed?.value).toEqual(affinity);
      if (index % BLOCK_WRITES_EVERY !== 0) return;
      await untilWritten(async () => {
        const stored = await blocks.get(BLOCK);
        if (stored === undefined) throw new Error("the block is missing");
        const next = { ...stored.value, sequenceNumber: stored.value.sequenceNumber + 1n };
        return blocks.update(BLOCK, next, stored.revision);
      });
    }),
  );
  const counts = (await handles.list()).map(({ value }) => value.blocks[BLOCK] ?? 0);
  expect(counts).toEqual(Array.from({ length: HANDLES }, () => operations / HANDLES));
  expect((await blocks.get(BLOCK))?.value.sequenceNumber).toBe(BigInt(operations / BLOCK_WRITES_EVERY));
}

/** Tries again whenever another operation was faster, however often that is: one of all always gets through. */
async function untilWritten(write: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await write();
      return;
    } catch (error) {
      if (!isDatastoreFailure(error, "conflict", "already-exists", "not-found")) throw error;
    }
  }
}
