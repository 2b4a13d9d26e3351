/** What the server answers to a new object is looked into by whoever wants to know. */
import { LEGACY_GROUP } from "../../../../../lib/datastore/kubernetes/group.ts";
import { handleCodec } from "../../../../../lib/datastore/kubernetes/handle-codec.ts";
import { ResourceApi } from "../../../../../lib/datastore/kubernetes/resource-api.ts";
import { ResourceCollection } from "../../../../../lib/datastore/kubernetes/resource-collection.ts";
import type { ApiClient } from "../../../../../lib/kubernetes/api-client.ts";

function handlesAnswering(body: string) {
  const client: ApiClient = { server: "https://test", request: async () => body, connect() {}, close() {} };
  return new ResourceCollection(new ResourceApi(client, async () => LEGACY_GROUP), handleCodec);
}

const HANDLE = { id: "h.1", blocks: { "10.0.0.0/26": 1 } };

describe("the answer to a new object", () => {
  it("is decoded when it is wanted", async () => {
    const stored = {
      metadata: { name: "h.1", uid: "u", resourceVersion: "7" },
      spec: { handleID: "h.1", block: { "10.0.0.0/26": 1 }, deleted: false },
    };

    const { value, revision } = await handlesAnswering(JSON.stringify(stored)).create("h.1", HANDLE);

    expect({ value, revision }).toEqual({ value: HANDLE, revision: "u/7" });
  });

  it.each(["nonsense", "[]", '{"metadata":{"name":"h.1"},"spec":{}}'])(
    "fails nobody before that when it cannot be read: %s",
    async (body) => {
      const created = await handlesAnswering(body).create("h.1", HANDLE);

      expect(() => created.revision).toThrow(expect.objectContaining({ name: "DatastoreError", failure: "invalid" }));
    },
  );
});
