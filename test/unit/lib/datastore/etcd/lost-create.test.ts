/** A create that finds the same text there: its own, if an earlier try may have been carried out, and somebody else's otherwise. */

import { handleCodec } from "../../../../../lib/datastore/etcd/codecs.ts";
import { EtcdCollection } from "../../../../../lib/datastore/etcd/collection.ts";
import { KeyValueStore } from "../../../../../lib/datastore/etcd/key-value-store.ts";
import { field, isObject, objects, section, text } from "../../../../../lib/json/decode.ts";

/** Handles of an etcd where every key has the very value that is about to be created. */
function handles(isRepetition: boolean) {
  const store = new KeyValueStore({
    ask: async (_path, request, read) => {
      const put = section(objects(field({ request }, "request", isObject), "success")[0] ?? {}, "requestPut");
      const kv = { key: text(put, "key"), value: text(put, "value"), mod_revision: "3", version: "1" };
      const answer = { header: { revision: "5" }, responses: [{ response_range: { kvs: [kv] } }] };
      return { value: read(answer), isRepetition };
    },
  });
  return new EtcdCollection({ store, onDamaged: () => undefined, user: "" }, handleCodec);
}

const HANDLE = { id: "c1", blocks: { "10.0.0.0/26": 1 } };

describe("a create that loses against an identical text", () => {
  it("E2: has failed at its first try: another client was first", async () => {
    await expect(handles(false).create("c1", HANDLE)).rejects.toMatchObject({ failure: "already-exists" });
  });

  it("is done when an earlier try of it may have been carried out", async () => {
    expect(await handles(true).create("c1", HANDLE)).toEqual({ value: HANDLE, revision: "3" });
  });
});
