import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ApiClient, ApiRequest } from "../../../../../lib/kubernetes/api-client.ts";
import { type ClientLimits, DEFAULT_LIMITS } from "../../../../../lib/kubernetes/client/limits.ts";
import { connect, serve } from "../../../../support/api-behind-tls.ts";
import type { Answering, Reply, TlsServer } from "../../../../support/tls-server.ts";

const OK: Reply = { status: 200, body: '{"ok":true}' };
const EXISTS: Reply = { status: 409, body: JSON.stringify({ kind: "Status", reason: "AlreadyExists", message: "a already exists" }) };

const GET: ApiRequest = { method: "GET", path: "/a" };
const POST: ApiRequest = { method: "POST", path: "/a", body: "{}" };
const PATCH: ApiRequest = { method: "PATCH", path: "/a", body: "[]" };
const PUT: ApiRequest = { method: "PUT", path: "/a", body: '{"metadata":{"resourceVersion":"7"}}' };
const DELETE: ApiRequest = { method: "DELETE", path: "/a", body: '{"preconditions":{"uid":"u"}}' };
const BLIND_PUT: ApiRequest = { method: "PUT", path: "/a", body: "{}" };
const BLIND_DELETE: ApiRequest = { method: "DELETE", path: "/a" };

describe("repeating a request", () => {
  /** A client, and a server that gives these answers one after the other; the last one for ever. */
  function start(replies: readonly Reply[] | Answering, limits: Partial<ClientLimits> = {}): { server: TlsServer; client: ApiClient } {
    const answer: Answering =
      typeof replies === "function" ? replies : (_request, index) => replies[Math.min(index, replies.length - 1)] ?? OK;
    const server = serve(answer);
    return { server, client: connect(server, {}, { longestPause: 20, ...limits }) };
  }

  const outcome = (client: ApiClient, request: ApiRequest): Promise<unknown> => client.request(request).catch((error: unknown) => error);

  /** Seconds that the last try was given. */
  const limitOf = (failure: unknown): number => Number(/no answer within (\S+) s/.exec(String(failure))?.[1]);

  describe.each<[string, Reply]>([
    ["the connection breaks without an answer", "close"],
    ["the connection breaks in the middle of the head", { raw: "HTTP/1.1 200 OK\r\nContent-Ty", close: true }],
    ["the connection breaks in the middle of the answer", { raw: 'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok"', close: true }],
    ["the connection breaks between two chunks", { raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", close: true }],
    ["the answer is 500", { status: 500 }],
    ["the answer is 502", { status: 502, body: "<html>" }],
    ["the answer is 503", { status: 503 }],
    ["the answer is 504", { status: 504 }],
  ])("after %s", (_what, failure) => {
    it.each([GET, POST, PATCH, PUT, DELETE])("asks again: $method $body", async (request) => {
      const { server, client } = start([failure, failure, OK]);

      expect(await outcome(client, request)).toBe('{"ok":true}');
      expect(server.requests.map(({ method, body }) => [method, body])).toEqual(Array(3).fill([request.method, request.body ?? ""]));
    });

    it.each([BLIND_PUT, BLIND_DELETE])(
      "does not repeat what could hit another's work, and says that it may have been done: $method",
      async (request) => {
        const { server, client } = start([failure, OK]);

        expect(await outcome(client, request)).toMatchObject({ name: "ApiError", isRepetition: true });
        expect(server.requests).toHaveLength(1);
      },
    );

    it("tells a refusal of the second try from one of the first", async () => {
      const { client } = start([failure, EXISTS, EXISTS]);

      expect(await outcome(client, POST)).toMatchObject({ status: 409, reason: "AlreadyExists", isRepetition: true });
      expect(await outcome(client, POST)).toMatchObject({ status: 409, reason: "AlreadyExists", isRepetition: false });
    });
  });

  it.each([BLIND_PUT, BLIND_DELETE, GET])("repeats what a busy server (429) has not begun: $method", async (request) => {
    const { server, client } = start([{ status: 429 }, OK]);

    expect(await outcome(client, request)).toBe('{"ok":true}');
    expect(server.requests).toHaveLength(2);
  });

  it.each<[string, Reply]>([
    ["Retry-After", { status: 429, headers: { "Retry-After": "1" } }],
    ["Retry-After of 503", { status: 503, headers: { "Retry-After": "1" } }],
    [
      "retryAfterSeconds of the Status object",
      { status: 503, body: JSON.stringify({ kind: "Status", details: { retryAfterSeconds: 1 } }) },
    ],
  ])("does not come back earlier than %s says", async (_what, busy) => {
    const { server, client } = start([busy, OK]);

    expect(await outcome(client, GET)).toBe('{"ok":true}');
    const [first, second] = server.requests;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(990);
  });

  it("takes a date as Retry-After", async () => {
    const { server, client } = start([{ status: 429, headers: { "Retry-After": new Date(Date.now() - 60_000).toUTCString() } }, OK]);

    expect(await outcome(client, GET)).toBe('{"ok":true}');
    expect(server.requests).toHaveLength(2);
  });

  it("does not take what a busy server turned away for something that may have been done", async () => {
    const { client } = start([{ status: 429 }, EXISTS]);

    expect(await outcome(client, POST)).toMatchObject({ reason: "AlreadyExists", isRepetition: false });
  });

  it.each(["3600", "20"])("gives up at once when it is told to wait longer than it would: %s s", async (seconds) => {
    const { server, client } = start([{ status: 429, headers: { "Retry-After": seconds } }, OK]);

    expect(await outcome(client, GET)).toMatchObject({ name: "ApiError", status: 429 });
    expect(server.requests).toHaveLength(1);
  });

  it.each([400, 403, 404, 405, 409, 410, 413, 415, 422])("does not repeat after %i", async (status) => {
    const { server, client } = start([{ status }, OK]);

    expect(await outcome(client, GET)).toMatchObject({ name: "ApiError", status, isRepetition: false });
    expect(server.requests).toHaveLength(1);
  });

  it("gives up after so many repetitions, and says how many and why", async () => {
    const { server, client } = start(["close"], { repetitions: 3 });

    expect(await outcome(client, GET)).toMatchObject({
      status: 0,
      isRepetition: true,
      message: expect.stringMatching(
        /^GET https:\/\/127\.0\.0\.1:\d+\/a: the server ended the connection before it answered .*\(tried 4 times\)$/,
      ),
    });
    expect(server.requests).toHaveLength(4);
  });

  it("gives the last answer's status when it gives up", async () => {
    const { client } = start([{ status: 503, body: JSON.stringify({ kind: "Status", message: "the server is shutting down" }) }], {
      repetitions: 2,
    });

    expect(await outcome(client, GET)).toMatchObject({ status: 503, explanation: "the server is shutting down" });
  });

  it("gives up when the request's time is over, whatever the server does", async () => {
    const { client } = start(["hold"]);
    const start0 = performance.now();

    const failure = await outcome(client, { ...GET, timeoutMs: 300 });
    expect(failure).toMatchObject({ status: 0 });
    expect(limitOf(failure)).toBeGreaterThan(0);
    expect(limitOf(failure)).toBeLessThanOrEqual(0.3);
    expect(performance.now() - start0).toBeLessThan(DEFAULT_LIMITS.try);
  });

  it("tries again on another connection when one try got no answer in time", async () => {
    const { server, client } = start(["hold", OK], { try: 100 });

    expect(await outcome(client, GET)).toBe('{"ok":true}');
    // On a busy machine a connection may take longer than a try, and then there are more of them.
    const [held, answered] = server.requests;
    expect(answered?.connection).toBeGreaterThan(held?.connection ?? Infinity);
  });

  it("has the limits that the documentation names", () => {
    const page = readFileSync(join(__dirname, "../../../../../docs/reference/configuration.md"), "utf8").replace(/\s+/g, " ");
    const [, request, refused] = /retried for at most (\S+) s, a refused connection for (\S+) s/.exec(page) ?? [];
    const [, once] = /One try has at most (\S+) s/.exec(page) ?? [];

    expect([request, once, refused].map((seconds) => Number(seconds) * 1000)).toEqual([
      DEFAULT_LIMITS.request,
      DEFAULT_LIMITS.try,
      DEFAULT_LIMITS.refused,
    ]);
    expect(DEFAULT_LIMITS.try).toBe(15_000);
  });

  it("gives later requests less time when earlier ones have used up its patience", async () => {
    const { client } = start(["hold"], { request: 1500, try: 1500, patience: 1400, least: 50 });
    const [first, second] = [await outcome(client, GET), await outcome(client, GET)];

    expect(second).toMatchObject({ status: 0 });
    expect(limitOf(second)).toBeLessThan(limitOf(first));
  });

  it("does not wait long for a server that is not there", async () => {
    const { server, client } = start([OK], { firstPause: 50, longestPause: 1000, refused: 400 });
    server[Symbol.dispose]();
    const begin = performance.now();

    expect(await outcome(client, POST)).toMatchObject({
      status: 0,
      isRepetition: false,
      message: expect.stringContaining("connect: connection refused"),
    });
    const took = performance.now() - begin;
    expect(took).toBeGreaterThan(100);
    expect(took).toBeLessThan(DEFAULT_LIMITS.try);
  });

  it("reaches a server that comes back within that time", async () => {
    const { server, client } = start([OK], { firstPause: 50, longestPause: 50, refused: 5000 });
    const { port } = server;
    server[Symbol.dispose]();
    const asked = outcome(client, BLIND_PUT);
    await Bun.sleep(150);
    serve(() => OK, { port });

    expect(await asked).toBe('{"ok":true}');
  });

  it("names a host that nobody knows", async () => {
    const { server } = start([OK]);
    const client = connect(server, { server: { hostname: "no.such.host.invalid", authority: "no.such.host.invalid:1" } }, { refused: 10 });

    expect(await outcome(client, GET)).toMatchObject({ status: 0, message: expect.stringContaining("lookup no.such.host.invalid") });
  });

  it("asks in order, and once each, what was asked for together while the connection broke", async () => {
    const { server, client } = start(({ target }, index) => (index === 1 ? "close" : { status: 200, body: JSON.stringify({ target }) }));
    const paths = ["/1", "/2", "/3", "/4"];
    const answers = await Promise.all(paths.map((path) => client.request({ method: "PATCH", path, body: "[]" })));

    expect(answers).toEqual(paths.map((target) => JSON.stringify({ target })));
    expect(server.asked).toEqual(["PATCH /1", "PATCH /2", "PATCH /2", "PATCH /3", "PATCH /4"]);
    expect(server.connections).toBe(2);
  });

  it.each([BLIND_PUT, BLIND_DELETE])("never has what could hit another's work sent twice by the runtime: $method", async (request) => {
    const { server, client } = start([OK, "close", OK]);
    await client.request(GET);

    expect(await outcome(client, request)).toMatchObject({ name: "ApiError", isRepetition: true });
    expect(server.requests).toHaveLength(2);
  });

  it.each([PUT, DELETE])("knows that an answer was lost over a connection that was used before: $method", async (request) => {
    const conflict: Reply = { status: 409, body: JSON.stringify({ kind: "Status", reason: "Conflict", message: "changed" }) };
    const { server, client } = start([OK, "close", conflict]);
    await client.request(GET);

    expect(await outcome(client, request)).toMatchObject({ status: 409, isRepetition: true });
    expect(server.requests).toHaveLength(3);
  });

  it.each<[string, Reply]>([
    ["another protocol", { raw: "SSH-2.0-OpenSSH_9.2\r\n" }],
    ["a gigantic length", { raw: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}" }],
    ["a compressed answer, which nobody asked for", { status: 200, headers: { "Content-Encoding": "gzip" } }],
    ["a change of the protocol", { raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" }],
    ["a bad length of a chunk", { raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n" }],
    ["a head without end", { raw: `HTTP/1.1 200 OK\r\n${"X: y\r\n".repeat(1_000_000)}` }],
    ["two lengths", { raw: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" }],
  ])("refuses %s and does not ask again", async (_what, reply) => {
    const { server, client } = start([reply]);

    expect(await outcome(client, GET)).toMatchObject({ status: 0, message: expect.stringContaining("the answer is not understood: ") });
    expect(server.requests).toHaveLength(1);
  });

  it("refuses a page that is no JSON, and shows how it begins", async () => {
    const { client } = start([{ status: 200, headers: { "Content-Type": "text/html" }, body: "<html>\n<title>Log in</title>" }]);

    expect(await outcome(client, GET)).toMatchObject({
      status: 0,
      message: expect.stringMatching(
        /"text\/html" instead of an object in JSON \(<html> <title>Log in<\/title>\): this is no Kubernetes API server$/,
      ),
    });
  });

  it("refuses what begins as JSON does and calls itself a page, and takes what has no type and begins so", async () => {
    const { client } = start([
      { status: 200, headers: { "Content-Type": "text/html" }, body: '{"ok":true}' },
      { raw: 'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}' },
      { raw: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>" },
    ]);

    expect(await outcome(client, GET)).toMatchObject({ status: 0, message: expect.stringContaining('"text/html" instead of') });
    expect(await outcome(client, GET)).toBe('{"ok":true}');
    expect(await outcome(client, GET)).toMatchObject({ status: 0, message: expect.stringContaining("text without a type instead of") });
  });

  it("does not take what was said without a question for an answer", async () => {
    const unasked = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"evil":1}';
    const { server, client } = start([
      { raw: `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}${unasked}` },
      OK,
    ]);

    expect(await outcome(client, GET)).toBe("{}");
    expect(await outcome(client, GET)).toBe('{"ok":true}');
    expect(server.connections).toBe(2);
  });

  it.each(["/a HTTP/1.1\r\nX: y", "a", "/a/../b", "/a/%2e%2E/b", "/a/./b", "/a#b", "//other.example/b", "/ä"])(
    "refuses the path %j",
    async (path) => {
      const { server, client } = start([OK]);

      expect(await outcome(client, { method: "GET", path })).toMatchObject({ name: "ApiError", status: 0 });
      expect(server.requests).toEqual([]);
    },
  );

  it("fails what is under way and whatever follows when it is closed", async () => {
    const { server, client } = start(["hold"]);
    const asked = outcome(client, GET);
    while (server.requests.length === 0) await Bun.sleep(5);
    client.close();

    expect(await asked).toMatchObject({ name: "ApiError", status: 0 });
    expect(await outcome(client, GET)).toMatchObject({ status: 0, message: expect.stringContaining("the client is closed") });
  });

  it("keeps to the limit of requests a second once the burst is used up", async () => {
    const client = connect(
      serve(() => OK),
      { qps: 20, burst: 2 },
    );
    const begin = performance.now();

    for (let count = 0; count < 6; count++) await client.request(GET);

    // Four beyond the burst, one every 50 ms.
    expect(performance.now() - begin).toBeGreaterThanOrEqual(195);
  });
});
