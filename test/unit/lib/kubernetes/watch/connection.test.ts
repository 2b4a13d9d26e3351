/** The agent's connection to an API server: credentials that are refused, what it tells of each request, streams and their end. */

import { ApiConnection } from "../../../../../lib/kubernetes/client/connection.ts";
import type { ApiConfig } from "../../../../../lib/kubernetes/config/api-config.ts";
import { apiConfigFor, type ConfigChange, serve } from "../../../../support/api-behind-tls.ts";
import { closing } from "../../../../support/closing.ts";
import type { Answering, TlsServer } from "../../../../support/tls-server.ts";

const LONG_MS = 60_000;

interface Told {
  readonly path: string;
  readonly status: number;
  readonly milliseconds: number;
}

/** @param renewals tokens by which the one of `apiConfigFor`, "first", is followed when it is read again */
function connect(server: TlsServer, renewals: readonly string[] = [], change: ConfigChange = {}) {
  const left = [...renewals];
  const config = (authorization: string): ApiConfig =>
    apiConfigFor(server, { identity: { authorization }, reload: () => config(`Bearer ${left.shift()}`), ...change });
  const told: Told[] = [];
  const connection = new ApiConnection(config("Bearer first"), ({ path }, status, milliseconds) => {
    told.push({ path, status, milliseconds });
  });
  return { connection: closing(connection), told };
}

/** A server that knows one token. */
const knows =
  (token: string): Answering =>
  ({ headers }) => ({ status: headers.authorization === `Bearer ${token}` ? 200 : 401 });

const tokens = (server: TlsServer) => server.requests.map(({ headers }) => headers.authorization);

describe("the agent's connection to an API server", () => {
  it("reads credentials that are refused again, and repeats the request with them, once", async () => {
    const server = serve(knows("second"));
    const { connection, told } = connect(server, ["second"]);
    expect(await connection.exchange({ method: "GET", path: "/a" })).toMatchObject({ status: 200 });
    expect(await connection.exchange({ method: "GET", path: "/b" })).toMatchObject({ status: 200 });
    expect(tokens(server)).toEqual(["Bearer first", "Bearer second", "Bearer second"]);
    expect(told.map(({ path, status }) => [path, status])).toEqual([
      ["/a", 401],
      ["/a", 200],
      ["/b", 200],
    ]);
  });

  it("hands on the refusal of new credentials, and begins with them the next time", async () => {
    const server = serve(knows("none"));
    const { connection } = connect(server, ["second", "third"]);
    expect(await connection.exchange({ method: "GET", path: "/a" })).toMatchObject({ status: 401 });
    expect(await connection.exchange({ method: "GET", path: "/a" })).toMatchObject({ status: 401 });
    expect(tokens(server)).toEqual(["Bearer first", "Bearer second", "Bearer second", "Bearer third"]);
  });

  it("hands on every other status as it is, without another try", async () => {
    const server = serve(() => ({ status: 403, body: '{"reason":"Forbidden"}' }));
    const { connection } = connect(server, ["second"]);
    expect(await connection.exchange({ method: "GET", path: "/a" })).toMatchObject({ status: 403, body: '{"reason":"Forbidden"}' });
    expect(server.requests.length).toBe(1);
  });

  it("sends method, path behind the server's, body and its type; a request without a body has none", async () => {
    const server = serve(() => ({ status: 200 }));
    const { connection } = connect(server, [], { server: { basePath: "/base" } });
    await connection.exchange({ method: "PATCH", path: "/a?b=c", body: "[]", contentType: "application/json-patch+json" });
    await connection.exchange({ method: "POST", path: "/a", body: "{}" });
    await connection.exchange({ method: "GET", path: "/a" });
    await (await connection.stream({ path: "/a?watch=true" }, new AbortController().signal)).text();
    expect(server.asked).toEqual(["PATCH /base/a?b=c", "POST /base/a", "GET /base/a", "GET /base/a?watch=true"]);
    const sent = server.requests.map(({ headers, body }) => [headers["content-type"], body]);
    expect(sent).toEqual([
      ["application/json-patch+json", "[]"],
      ["application/json", "{}"],
      [undefined, ""],
      [undefined, ""],
    ]);
    expect(tokens(server)).toEqual(["Bearer first", "Bearer first", "Bearer first", "Bearer first"]);
  });

  it("tells of an answer that never came with status 0, and of how long it took", async () => {
    const server = serve(() => "hold");
    const { connection, told } = connect(server);
    await expect(connection.exchange({ method: "GET", path: "/a" }, 20)).rejects.toMatchObject({ failure: "timeout" });
    await expect(connection.stream({ path: "/b" }, new AbortController().signal, 20)).rejects.toMatchObject({ failure: "timeout" });
    expect(told.map(({ path, status }) => [path, status])).toEqual([
      ["/a", 0],
      ["/b", 0],
    ]);
    expect(told.every(({ milliseconds }) => milliseconds >= 19 && milliseconds < LONG_MS)).toBe(true);
  });

  it("repeats a GET by itself where a kept connection ends before the answer", async () => {
    const server = serve((_, index) => (index === 1 ? "close" : { status: 200 }));
    const { connection } = connect(server);
    await connection.exchange({ method: "GET", path: "/a" });
    expect(await connection.exchange({ method: "GET", path: "/b" })).toMatchObject({ status: 200 });
    expect(server.asked).toEqual(["GET /a", "GET /b", "GET /b"]);
  });

  it.each(["PUT", "DELETE", "PATCH", "POST"] as const)("never repeats a %s, which may have been carried out", async (method) => {
    const server = serve((request) => (request.method === "GET" ? { status: 200 } : "close"));
    const { connection } = connect(server);
    await connection.exchange({ method: "GET", path: "/a" });
    await expect(connection.exchange({ method, path: "/b", body: "{}" })).rejects.toMatchObject({ wasSent: true });
    expect(server.asked).toEqual(["GET /a", `${method} /b`]);
  });
});

describe("a stream of the agent's connection", () => {
  const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

  it("is read while it comes, after credentials that were refused, and has no limit once it has begun", async () => {
    const server = serve(({ headers }) => (headers.authorization === "Bearer second" ? { raw: HEAD + chunk("one\n") } : { status: 401 }));
    const { connection, told } = connect(server, ["second"]);
    const response = await connection.stream({ path: "/w" }, new AbortController().signal);
    const reader = response.body?.getReader();
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe("one\n");
    expect(told.map(({ status }) => status)).toEqual([401, 200]);
  });

  it("ends with its signal, and the connection goes on", async () => {
    const server = serve(({ target }) => (target === "/w" ? { raw: HEAD + chunk("one\n") } : { status: 200 }));
    const { connection } = connect(server);
    const stop = new AbortController();
    const response = await connection.stream({ path: "/w" }, stop.signal);
    const read = response.text();
    stop.abort();
    await expect(read).rejects.toThrow();
    expect(await connection.exchange({ method: "GET", path: "/a" })).toMatchObject({ status: 200 });
  });

  it("ends when the connection is closed, and nothing is asked for afterwards", async () => {
    const server = serve(() => ({ raw: HEAD + chunk("one\n") }));
    const { connection, told } = connect(server);
    const response = await connection.stream({ path: "/w" }, new AbortController().signal);
    const read = response.text();
    connection.close();
    await read.catch(() => undefined);
    await expect(connection.exchange({ method: "GET", path: "/a" })).rejects.toMatchObject({ failure: "not-connected" });
    await expect(connection.stream({ path: "/w" }, new AbortController().signal)).rejects.toMatchObject({ failure: "not-connected" });
    expect([server.requests.length, told.length]).toEqual([1, 1]);
  });
});
