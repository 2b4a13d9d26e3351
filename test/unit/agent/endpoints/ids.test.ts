import { IdPool } from "../../../../agent/endpoints/table.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh } from "../../../support/fixtures.ts";

const clock = fresh(() => new FakeClock());

function poolOf(max?: number, directories: ReadonlySet<number> = new Set()) {
  return new IdPool({ now: () => clock.now(), hasDirectory: (id) => directories.has(id), ...(max === undefined ? {} : { max }) });
}

describe("ids of endpoints", () => {
  it("A-L04: stay in their range over 5000 ADDs and DELs, and none is given again within 60 s", async () => {
    const ids = poolOf();
    const releasedAt = new Map<number, number>();
    for (let round = 0; round < 5000; round++) {
      const id = ids.take();
      expect(id).toBeGreaterThanOrEqual(1);
      expect(id).toBeLessThanOrEqual(4095);
      expect(clock.now() - (releasedAt.get(id) ?? Number.NEGATIVE_INFINITY)).toBeGreaterThanOrEqual(60_000);
      ids.release(id);
      releasedAt.set(id, clock.now());
      if (round % 50 === 0) await clock.advance(1_000);
    }
  });

  it("are given in the order of their release", async () => {
    const ids = poolOf(3);
    expect([ids.take(), ids.take(), ids.take()]).toEqual([1, 2, 3]);
    for (const id of [2, 3, 1]) ids.release(id);
    await clock.advance(60_000);
    expect([ids.take(), ids.take(), ids.take()]).toEqual([2, 3, 1]);
  });

  it("are refused in words when all are in use or rest", async () => {
    const ids = poolOf(2);
    ids.take();
    ids.release(ids.take());
    expect(() => ids.take()).toThrow("no more endpoint IDs available: 1 of 2 are in use");
    await clock.advance(60_000);
    expect(ids.take()).toBe(2);
  });

  it("are not given while a directory of their last bearer is there", async () => {
    const directories = new Set([1, 3]);
    const ids = poolOf(3, directories);
    expect(ids.take()).toBe(2);
    expect(() => ids.take()).toThrow("no more endpoint IDs");
    directories.delete(3);
    await clock.advance(60_000);
    expect(ids.take()).toBe(3);
  });

  it("of restored endpoints are taken, even above a limit that was lowered, and not given again then", async () => {
    const ids = poolOf(2);
    ids.reserve(1);
    ids.reserve(9);
    expect(() => ids.reserve(9)).toThrow("endpoint ID 9 is already in use");
    expect(ids.take()).toBe(2);
    ids.release(9);
    ids.release(1);
    await clock.advance(60_000);
    expect(ids.take()).toBe(1);
    expect(() => ids.take()).toThrow("no more endpoint IDs");
  });
});
