import { join } from "node:path";
import { openLocalDatastore } from "../../../../lib/datastore/local/local-datastore.ts";
import { countAtOnce } from "../../../support/datastore-at-once.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { MemoryStore } from "../../../support/memory-datastore.ts";
import { openFilesIn } from "../../../support/open-files.ts";
import { sampleEndpoint } from "../../../support/samples.ts";

const OPERATIONS = 200;

const directory = fresh(() => new TemporaryDirectory());

describe("one datastore that serves 200 operations at once", () => {
  it("loses none in memory", async () => {
    await countAtOnce(new MemoryStore().connect(), OPERATIONS);
  });

  it("loses none in a local store, and leaves no descriptor when it is closed", async () => {
    const datastore = openLocalDatastore(join(directory.path, "tortie.db"));
    await countAtOnce(datastore, OPERATIONS);
    expect(openFilesIn(directory.path).length).toBeGreaterThan(0);
    await datastore[Symbol.asyncDispose]();
    expect(openFilesIn(directory.path)).toEqual([]);
  });

  it("opens no further file of a local store for them", async () => {
    const datastore = openLocalDatastore(join(directory.path, "tortie.db"));
    const { endpoints } = datastore;
    await countAtOnce(datastore, 100);
    const before = openFilesIn(directory.path).length;
    await Promise.all(
      Array.from({ length: OPERATIONS }, async (_, index) => {
        const endpoint = sampleEndpoint("shop", `worker--1-k8s-p${index}-eth0`, { containerID: `c${index}` });
        await datastore.records.write(endpoint);
        expect(await endpoints.listByPrefix("shop", `worker--1-k8s-p${index}-`)).toHaveLength(1);
        expect(await datastore.records.clear(endpoint, `c${index}`)).toBe("cleared");
      }),
    );
    expect(await endpoints.list()).toEqual([]);
    expect(openFilesIn(directory.path).length).toBe(before);
    await datastore[Symbol.asyncDispose]();
  });
});
