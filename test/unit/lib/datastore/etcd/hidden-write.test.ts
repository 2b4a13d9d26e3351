/** A write that a member refuses for a moment may have been carried out all the same: its repetition is not taken for a conflict. */
import { createServer } from "node:http";
import { etcdDatastore } from "../../../../../lib/datastore/etcd/etcd-datastore.ts";
import { resolveEtcdSettings } from "../../../../../lib/datastore/etcd/settings.ts";
import { NO_ETCD } from "../../../../support/etcd/no-etcd.ts";

const HANDLE = { id: "net.c1", blocks: { "10.0.0.0/26": 1 } };

describe("a create that etcd refuses because its leader has changed", () => {
  it("E3: is done when the repetition finds what the refused try has written", async () => {
    let tries = 0;
    const server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        const body = Buffer.concat(parts).toString();
        response.setHeader("Content-Type", "application/json");
        if (++tries === 1) {
          const message = "etcdserver: leader changed";
          response.writeHead(503).end(JSON.stringify({ error: message, code: 14, message, details: [] }));
          return;
        }
        const { key, value } = JSON.parse(body).success[0].requestPut;
        const kvs = [{ key, value, mod_revision: "3", version: "1" }];
        response.end(JSON.stringify({ header: { revision: "5" }, responses: [{ response_range: { kvs } }] }));
      });
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    try {
      const address = server.address();
      if (typeof address !== "object" || address === null) throw new Error("the server does not listen");
      const settings = resolveEtcdSettings({ ...NO_ETCD, endpoints: `http://127.0.0.1:${address.port}` }, {});
      await using datastore = etcdDatastore(settings, { limits: { request: 5_000, least: 5_000, firstPause: 1, longestPause: 1 } });
      expect(await datastore.handles.create(HANDLE.id, HANDLE)).toEqual({ value: HANDLE, revision: "3" });
      expect(tries).toBe(2);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});
