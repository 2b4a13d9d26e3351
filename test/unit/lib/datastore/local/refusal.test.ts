import { Database } from "bun:sqlite";
import { mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import { DatastoreError } from "../../../../../lib/datastore/errors.ts";
import { openLocalDatastore } from "../../../../../lib/datastore/local/local-datastore.ts";
import { TortieError } from "../../../../../lib/errors/errors.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";
import { fullBlock, samplePool } from "../../../../support/samples.ts";

const directory = fresh(() => new TemporaryDirectory());
let path: string;
beforeEach(() => {
  path = join(directory.path, "tortie.db");
});

/** A store of a few dozen pages, closed, so that all of it is in the one file. */
async function makeStore(): Promise<void> {
  await using store = openLocalDatastore(path);
  for (let block = 0; block < 8; block++) await store.blocks.create(`10.40.${block}.0/26`, fullBlock(`10.40.${block}.0/26`, "node-a"));
}

function change(...statements: readonly string[]): void {
  const database = new Database(path);
  for (const statement of statements) database.run(statement);
  database.close();
}

async function use(): Promise<unknown> {
  await using store = openLocalDatastore(path, { busyTimeoutMs: 100 });
  const blocks = await store.blocks.list();
  return blocks.map(({ value }) => value.allocations);
}

/** What a use of the store throws; the directory must be as it was to the last byte. */
async function refusal(): Promise<unknown> {
  const before = snapshot();
  const error = await use().catch((thrown: unknown) => thrown);
  expect(snapshot()).toEqual(before);
  return error;
}

function snapshot(): Record<string, string> {
  const files: Record<string, string> = {};
  for (const name of readdirSync(directory.path)) {
    const stat = statSync(join(directory.path, name));
    files[name] = stat.isFile() ? `${stat.size} ${readFileSync(join(directory.path, name)).toString("base64")}` : "other";
  }
  return files;
}

function expectWord(error: unknown, word: string): void {
  expect(error).toBeInstanceOf(TortieError);
  expect(error).toMatchObject({ word });
  expect(String(error)).toContain(path);
}

function expectUnavailable(error: unknown, text: string): void {
  expect(error).toBeInstanceOf(DatastoreError);
  expect(error).toMatchObject({ failure: "unavailable" });
  expect(String(error)).toContain(path);
  expect(String(error)).toContain(text);
}

describe("a damaged local store is refused and left as it is", () => {
  it.each([
    ["a text", "this is not a database, it only has the name of one\n".repeat(50)],
    ["a few bytes", "SQLite"],
    ["zeros", "\0".repeat(8192)],
  ])("when it is %s", async (_what, content) => {
    writeFileSync(path, content);
    expectWord(await refusal(), "datastore-damaged");
  });

  it.each([60, 99, 4096, 5000, 16_384])("when it was cut to %d bytes", async (size) => {
    await makeStore();
    truncateSync(path, size);
    expectWord(await refusal(), "datastore-damaged");
  });

  it("when pages were overwritten", async () => {
    await makeStore();
    const bytes = readFileSync(path);
    for (let page = 1; page * 4096 < bytes.length; page++) bytes.fill(0xa5, page * 4096, page * 4096 + 4096);
    writeFileSync(path, bytes);
    expectWord(await refusal(), "datastore-damaged");
  });

  it("when an object in it is no longer what it was", async () => {
    await makeStore();
    change("UPDATE objects SET detail = substr(detail, 1, 100) WHERE key = '10-40-3-0-26'");
    const error = await refusal();
    expectWord(error, "datastore-damaged");
    expect(String(error)).toContain("10-40-3-0-26");
  });

  it("when its tables are gone", async () => {
    await makeStore();
    change("DROP TABLE objects");
    expectWord(await refusal(), "datastore-damaged");
  });
});

describe("a file of others is refused and left as it is", () => {
  it.each([
    ["another program's database has the name", "datastore-foreign", ["CREATE TABLE customers (name TEXT)"]],
    [
      "another program's database with its own application_id has the name",
      "datastore-foreign",
      ["PRAGMA application_id = 252006675; PRAGMA user_version = 1", "CREATE TABLE objects (kind, key, revision, value, detail)"],
    ],
    ["a newer tortie wrote it", "datastore-newer", ["PRAGMA user_version = 2"]],
  ])("when %s", async (_what, word, statements) => {
    if (word === "datastore-newer") await makeStore();
    change(...statements);
    expectWord(await refusal(), word);
  });

  it("when a newer tortie is at work on it, and only the log says so", async () => {
    await makeStore();
    const newer = new Database(path);
    newer.run("PRAGMA user_version = 2");
    const before = readFileSync(path);
    await expect(use()).rejects.toMatchObject({ word: "datastore-newer" });
    expect(readFileSync(path).equals(before)).toBe(true);
    newer.close();
  });
});

describe("a local store that cannot be used says why", () => {
  it.each([
    ["a directory has its name", () => mkdirSync(path)],
    ["a pipe has its name, without waiting for a writer", () => execaSync("mkfifo", [path])],
  ])("when %s", async (_what, make) => {
    make();
    expectUnavailable(await refusal(), "not a regular file");
  });

  it("when a file stands where its directory should be", async () => {
    writeFileSync(path, "");
    path = join(path, "tortie.db");
    expectUnavailable(await refusal(), "not a directory");
  });

  it("when another process keeps it locked for longer than the limit", async () => {
    await makeStore();
    const holder = new Database(path);
    holder.run("BEGIN IMMEDIATE");
    const started = performance.now();
    const store = openLocalDatastore(path, { busyTimeoutMs: 150 });
    const error = await store.pools.create("p", samplePool("p", "10.40.0.0/16")).catch((thrown: unknown) => thrown);
    expectUnavailable(error, "locked by another process");
    expect(performance.now() - started).toBeGreaterThan(140);
    // Readers do not wait for the writer.
    expect(await store.blocks.list()).toHaveLength(8);
    holder.run("ROLLBACK");
    await store.pools.create("p", samplePool("p", "10.40.0.0/16"));
    await store[Symbol.asyncDispose]();
    holder.close();
  });
});
