import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatastoreError } from "../../../../../lib/datastore/errors.ts";
import { openLocalDatastore } from "../../../../../lib/datastore/local/local-datastore.ts";
import { ending, fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";
import { fullBlock } from "../../../../support/samples.ts";

const temporary = fresh(() => new TemporaryDirectory());

/** @returns the directory, which is a file system of its own until the test ends */
function mountTmpfs(options: string): string {
  const { path } = temporary;
  execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", path]);
  ending({ [Symbol.dispose]: () => void execFileSync("umount", [path]) });
  return path;
}

async function failureOf(work: () => Promise<unknown>): Promise<DatastoreError> {
  const error = await work().then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof DatastoreError)) throw new Error(`expected a DatastoreError, got ${String(error)}`);
  return error;
}

describe("the local store on a full disk", () => {
  it("fails a write as unavailable, keeps what it had, and goes on when there is room again", async () => {
    const directory = mountTmpfs("size=512k");
    const path = join(directory, "tortie.db");
    const store = openLocalDatastore(path);
    let stored = 0;
    const fill = async (): Promise<void> => {
      for (; ; stored++) await store.blocks.create(`10.40.${stored}.0/26`, fullBlock(`10.40.${stored}.0/26`, "node-a"));
    };
    const error = await failureOf(fill);
    expect(error.failure).toBe("unavailable");
    expect(error.message).toContain(path);
    expect(error.message).toMatch(/full|disk/);
    expect(stored).toBeGreaterThan(5);
    expect(await store.blocks.list()).toHaveLength(stored);

    execFileSync("mount", ["-o", "remount,size=4m", directory]);
    await store.blocks.create("10.41.0.0/26", fullBlock("10.41.0.0/26", "node-a"));
    await store[Symbol.asyncDispose]();
    const again = openLocalDatastore(path);
    expect((await again.blocks.list()).map(({ value }) => value.allocations.length)).toEqual(Array(stored + 1).fill(64));
    await again[Symbol.asyncDispose]();
  });

  it("cannot be made where there is no room at all, and can once there is", async () => {
    const directory = mountTmpfs("size=256k");
    const path = join(directory, "tortie.db");
    writeFileSync(join(directory, "ballast"), Buffer.alloc(256 * 1024));
    const error = await failureOf(async () => openLocalDatastore(path));
    expect(error.failure).toBe("unavailable");
    expect(error.message).toContain(path);
    rmSync(join(directory, "ballast"));
    const store = openLocalDatastore(path);
    expect(await store.blocks.list()).toEqual([]);
    await store[Symbol.asyncDispose]();
  });

  it("is unavailable on a read-only file system", async () => {
    const directory = mountTmpfs("size=1m");
    const path = join(directory, "tortie.db");
    await openLocalDatastore(path)[Symbol.asyncDispose]();
    execFileSync("mount", ["-o", "remount,ro", directory]);
    const error = await failureOf(async () => {
      await using store = openLocalDatastore(path);
      await store.blocks.create("10.41.0.0/26", fullBlock("10.41.0.0/26", "node-a"));
    });
    expect(error.failure).toBe("unavailable");
    expect(error.message).toMatch(/read-only|cannot be opened/);
  });
});
