/** What a list and a revision of the local store promise while other processes write, and while the clock is set. */
import { Database } from "bun:sqlite";
import { join } from "node:path";
import { LocalCollection } from "../../../../../lib/datastore/local/local-datastore.ts";
import { ObjectStore } from "../../../../../lib/datastore/local/object-store.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());
const path = () => join(directory.path, "tortie.db");
afterEach(() => jest.restoreAllMocks());

const text = (value: string) => ({ value, detail: null, room: null });

describe("a list of the local store", () => {
  it("is one state of the store, although another process writes while it is read", async () => {
    using store = new ObjectStore(path());
    using other = new ObjectStore(path());
    let whileReading = () => {};
    const collection = new LocalCollection<string, string>(store, {
      kind: "handle",
      keyOf: String,
      encode: text,
      decode: ({ value }) => {
        whileReading();
        return value;
      },
    });
    const list = async () => (await collection.list()).map(({ value }) => value);
    const revisions = { a: other.create("handle", "a", text("a1")), b: other.create("handle", "b", text("b1")) };
    // From the second time on a list is remembered, and only what has changed since is read.
    for (let time = 0; time < 2; time++) expect(await list()).toEqual(["a1", "b1"]);
    revisions.a = other.update("handle", "a", text("a2"), revisions.a);
    revisions.b = other.update("handle", "b", text("b2"), revisions.b);

    whileReading = () => {
      whileReading = () => {};
      other.update("handle", "a", text("a3"), revisions.a);
      other.update("handle", "b", text("b3"), revisions.b);
    };
    expect(await list()).toEqual(["a2", "b2"]);
    expect(await list()).toEqual(["a3", "b3"]);
  });
});

describe("a revision of the local store", () => {
  it("is given once, although the clock is set back between two writes", () => {
    using store = new ObjectStore(path());
    const seen = [store.create("handle", "a", text("1"))];
    const now = performance.now();
    jest.spyOn(performance, "now").mockReturnValue(now - 3_600_000);
    for (let life = 0; life < 3; life++) {
      seen.push(store.update("handle", "a", text("2"), seen.at(-1) ?? ""));
      store.delete("handle", "a", seen.at(-1) ?? "");
      seen.push(store.create("handle", "a", text("1")));
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.map(Number)).toEqual(seen.map(Number).toSorted((a, b) => a - b));
  });

  it("is above the one it replaces, although a process whose clock was ahead gave that", () => {
    using store = new ObjectStore(path());
    store.create("handle", "a", text("1"));
    const ahead = Number(store.get("handle", "a")?.revision) + 3_600_000_000;
    using database = new Database(path());
    database.run("UPDATE objects SET revision = ?", [ahead]);
    expect(Number(store.update("handle", "a", text("2"), String(ahead)))).toBeGreaterThan(ahead);
  });
});
