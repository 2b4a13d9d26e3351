/** A write that a member refuses for a moment may have been carried out all the same: its repetition is not taken for a conflict. */
import { objects, section, text } from "../../../../../lib/json/decode.ts";
import { MemoryEtcd } from "../../../../support/etcd/memory-etcd.ts";

const HANDLE = { id: "net.c1", blocks: { "10.0.0.0/26": 1 } };

describe("a create that etcd refuses because its leader has changed", () => {
  it("E3: is done when the repetition finds what the refused try has written", async () => {
    using etcd = new MemoryEtcd();
    etcd.intercept = ({ request }) => {
      if (etcd.asked.length > 1) return undefined;
      const put = section(objects(request, "success")[0] ?? {}, "requestPut");
      etcd.put(atob(text(put, "key")), atob(text(put, "value")));
      const message = "etcdserver: leader changed";
      return { status: 503, body: JSON.stringify({ error: message, code: 14, message, details: [] }) };
    };
    await using datastore = etcd.datastore();
    expect(await datastore.handles.create(HANDLE.id, HANDLE)).toEqual({ value: HANDLE, revision: "2" });
    expect(etcd.asked).toHaveLength(2);
  });
});
