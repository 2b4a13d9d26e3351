/** Lists of more than one page: every page is as of the first one's revision, and so is the watch that follows. */
import { KeyValueStore } from "../../../../../lib/datastore/etcd/key-value-store.ts";
import type { Fields } from "../../../../../lib/json/decode.ts";

const page = (revision: string, key: string, more: boolean): Fields => ({
  header: { revision },
  kvs: [{ key: btoa(key), value: btoa("x"), mod_revision: "3" }],
  more,
});

describe("a list of several pages", () => {
  it("E1: is as of the revision of its first page, whatever was written meanwhile", async () => {
    const answers = [page("7", "/words/a", true), page("9", "/words/b", true), page("11", "/words/c", false)];
    const asked: object[] = [];
    const store = new KeyValueStore({
      ask: async (_path, request, read) => {
        asked.push(request);
        return { value: read(answers.shift() ?? {}), isRepetition: false };
      },
    });
    const told: unknown[] = [];
    for await (const { pairs, revision } of store.pages("/words/")) told.push([pairs.map(({ key }) => key), revision, asked.length]);
    // Each page is told before the next one is asked for: of a large list there is never more than one in memory.
    expect(told).toEqual([
      [["/words/a"], "7", 1],
      [["/words/b"], "7", 2],
      [["/words/c"], "7", 3],
    ]);
    expect(asked).toEqual([
      expect.not.objectContaining({ revision: expect.anything() }),
      expect.objectContaining({ revision: "7" }),
      expect.objectContaining({ revision: "7" }),
    ]);
  });
});
