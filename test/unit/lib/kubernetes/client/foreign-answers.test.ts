/** N12: what answers in the place of an API server, such as a proxy, says nothing about objects. */
import { asDatastoreError } from "../../../../../lib/datastore/kubernetes/resource-api.ts";
import { ApiError } from "../../../../../lib/kubernetes/api-client.ts";
import { connect, serve } from "../../../../support/api-behind-tls.ts";
import type { Reply, TlsServer } from "../../../../support/tls-server.ts";

describe("an answer without a Kubernetes object", () => {
  async function ask(reply: Reply): Promise<{ readonly error: ApiError; readonly server: TlsServer }> {
    const server = serve(() => reply);
    const error = await connect(server, {}, { repetitions: 0 })
      .request({ method: "GET", path: "/api/v1/pods" })
      .catch((thrown: unknown) => thrown);
    if (!(error instanceof ApiError)) throw new Error(`no ApiError: ${error}`);
    return { error, server };
  }

  const PAGE = { headers: { "Content-Type": "text/html" }, body: "<html>proxy</html>" };
  it.each<[string, Reply, string]>([
    ["an empty body", { status: 200, body: "" }, "status 200 is an empty body"],
    ["garbage", { status: 200, body: "\u0001{garbage" }, 'status 200 is "application/json"'],
    ["an object that does not end", { status: 200, body: '{"kind":"PodList","items":[}' }, "status 200"],
    ["a text", { status: 200, body: '"ok"' }, "status 200"],
    ["a redirect", { status: 302, headers: { Location: "/login" } }, "status 302"],
    ["a redirect in HTML", { status: 301, ...PAGE }, "status 301"],
    ["a page that says not found", { status: 404, ...PAGE }, 'status 404 is "text/html"'],
    ["a page that says forbidden", { status: 403, ...PAGE }, "status 403"],
    ["a demand of a proxy", { status: 407, headers: { "Content-Type": "text/plain" }, body: "x" }, "status 407"],
    ["a complaint about HTTP", { status: 400, headers: { "Content-Type": "text/plain" }, body: "HTTPS server" }, "HTTPS server"],
  ])("N12: says of %s that no API server has answered, and does not ask again", async (_what, reply, words) => {
    const { server, error } = await ask(reply);
    expect(error).toMatchObject({ status: 0, fault: "foreign", message: expect.stringContaining(words) });
    expect(asDatastoreError(error, "Pod(a/b)")).toMatchObject({ failure: "unavailable", word: "datastore-answer-foreign" });
    expect(server.requests).toHaveLength(1);
  });

  it.each<[number, string, Reply]>([
    [404, "not-found", { status: 404, headers: { "Content-Type": "text/plain" }, body: "404 page not found" }],
    [401, "unauthorized", { status: 401, headers: { "Content-Type": "text/plain" }, body: "Unauthorized" }],
    [503, "unavailable", { status: 503, ...PAGE }],
  ])("takes a %i without a Status object as what it says: %s", async (status, failure, reply) => {
    const { error } = await ask(reply);
    expect(error).toMatchObject({ status, fault: undefined });
    expect(asDatastoreError(error, "x")).toMatchObject({ failure });
  });
});
