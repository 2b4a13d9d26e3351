import { copyFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openLocalDatastore } from "../../../../../lib/datastore/local/local-datastore.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";
import { killedWriter, runStoreClient } from "../../../../support/store-processes.ts";

const directory = fresh(() => new TemporaryDirectory());

async function handlesOf(path: string): Promise<readonly string[]> {
  await using store = openLocalDatastore(path);
  return (await store.handles.list()).map(({ value }) => value.id);
}

describe("the local store under many processes", () => {
  it("is made by 110 processes at once that all find it missing", async () => {
    const path = join(directory.path, "not-yet", "there", "tortie.db");
    const outputs = await Promise.all(Array.from({ length: 110 }, () => runStoreClient(path, "create", 1)));
    expect(outputs.filter((output) => output !== "ok\n")).toEqual([]);
    expect(await handlesOf(path)).toHaveLength(110);
    expect((statSync(path).mode & 0o777).toString(8)).toBe("600");
    expect((statSync(join(directory.path, "not-yet", "there")).mode & 0o777).toString(8)).toBe("700");
  }, 60_000);

  it("loses no update of one object that twelve processes change at once", async () => {
    const path = join(directory.path, "tortie.db");
    const outputs = await Promise.all(Array.from({ length: 12 }, () => runStoreClient(path, "count", 25)));
    expect(outputs.filter((output) => output !== "ok\n")).toEqual([]);
    await using store = openLocalDatastore(path);
    expect((await store.handles.get("counter"))?.value.blocks).toEqual({ "10.40.0.0/26": 300 });
  }, 60_000);
});

describe("the local store after a death", () => {
  it("has every write that was confirmed before SIGKILL, and at most the one after", async () => {
    for (const until of [1, 40, 600]) {
      const path = join(directory.path, `${until}.db`);
      const confirmed = await killedWriter(path, until);
      expect(confirmed.length).toBeGreaterThanOrEqual(until);
      const stored = await handlesOf(path);
      expect(stored.slice(0, confirmed.length).map(Number)).toEqual(confirmed);
      expect(stored.length - confirmed.length).toBeLessThanOrEqual(1);
    }
  }, 30_000);

  it("opens with a consistent beginning of what was written when power fails at any point of the log", async () => {
    const path = join(directory.path, "tortie.db");
    // Few enough that none of it was copied from the log into the file, which would have made the log safe first.
    await killedWriter(path, 40, 40);
    const log = readFileSync(`${path}-wal`);
    const counts: number[] = [];
    for (let cut = 0; cut <= 12; cut++) {
      const copy = join(directory.path, `cut-${cut}.db`);
      copyFileSync(path, copy);
      writeFileSync(`${copy}-wal`, log.subarray(0, Math.floor((log.length * cut) / 12) - (cut % 3) * 17));
      const stored = await handlesOf(copy);
      expect(stored.map(Number)).toEqual(stored.map((_, index) => index));
      counts.push(stored.length);
    }
    expect(counts).toEqual([...counts].sort((a, b) => a - b));
    expect([counts[0], counts.at(-1)]).toEqual([0, 40]);
  }, 30_000);

  it("begins anew when its maker was killed before anything was in the file", async () => {
    const path = join(directory.path, "tortie.db");
    writeFileSync(path, "");
    expect(await handlesOf(path)).toEqual([]);
  });
});
