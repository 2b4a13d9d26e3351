import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { assertReadinessGates, awaitReadinessGates } from "../../../main-plugin/gates.ts";

const servers: Server[] = [];

/** A web server on this machine. @returns its root, without a slash at the end */
async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return `http://127.0.0.1:${address.port}`;
}

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** A clock that only sleeping moves, and the sleeps it has seen. */
function stoppedClock() {
  let time = 0;
  const sleeps: number[] = [];
  return {
    sleeps,
    now: () => time,
    sleep: async (milliseconds: number) => {
      sleeps.push(milliseconds);
      time += milliseconds;
    },
  };
}

describe("a readiness gate", () => {
  it("that is ready costs one request and no wait (design §8)", async () => {
    let requests = 0;
    const url = await serve((_, response) => {
      requests++;
      response.end("ready");
    });
    const clock = stoppedClock();
    await awaitReadinessGates([url], {}, clock);
    expect({ requests, sleeps: clock.sleeps }).toEqual({ requests: 1, sleeps: [] });
  });

  it.each([200, 204, 304, 399])("is ready with status %i", async (status) => {
    const url = await serve((_, response) => response.writeHead(status).end());
    const clock = stoppedClock();
    await awaitReadinessGates([url], {}, clock);
    expect(clock.sleeps).toEqual([]);
  });

  it("is asked where it redirects to", async () => {
    const paths: (string | undefined)[] = [];
    const url = await serve((request, response) => {
      paths.push(request.url);
      if (request.url === "/old") response.writeHead(302, { location: "/new" }).end();
      else response.writeHead(paths.length < 4 ? 503 : 200).end();
    });
    const clock = stoppedClock();
    await awaitReadinessGates([`${url}/old`], {}, clock);
    expect(paths).toEqual(["/old", "/new", "/old", "/new"]);
    expect(clock.sleeps).toEqual([5_000]);
  });

  it.each([301, 302, 303, 307, 308])("is followed by status %i", async (status) => {
    const url = await serve((request, response) => {
      if (request.url === "/old") response.writeHead(status, { location: "/new" }).end();
      else response.writeHead(503).end();
    });
    await expect(assertReadinessGates([`${url}/old`], {})).rejects.toMatchObject({ message: expect.stringContaining("status 503") });
  });

  it("L7: is not looked for through a proxy on this machine, nor where NO_PROXY names it, at any step of the way", async () => {
    const url = await serve((request, response) => {
      if (request.url === "/old") response.writeHead(302, { location: "http://gate.example:80/new" }).end();
      else response.end();
    });
    const proxied: (string | undefined)[] = [];
    const proxy = await serve((request, response) => {
      proxied.push(request.url);
      response.end();
    });
    const clock = stoppedClock();

    await awaitReadinessGates([url, url.replace("127.0.0.1", "localhost")], { HTTP_PROXY: proxy }, clock);
    expect(proxied).toEqual([]);
    await awaitReadinessGates([`${url}/old`], { HTTP_PROXY: proxy }, clock);
    expect(proxied).toEqual(["http://gate.example/new"]);
    await expect(
      awaitReadinessGates(["http://gate.invalid/x"], { HTTP_PROXY: proxy, NO_PROXY: "gate.invalid" }, clock),
    ).rejects.toMatchObject({ word: "readiness-gate-closed" });
    expect(proxied).toHaveLength(1);
  });

  it("that redirects for ever is not ready", async () => {
    let requests = 0;
    const url = await serve((_, response) => {
      requests++;
      response.writeHead(302, { location: "/again" }).end();
    });

    await expect(assertReadinessGates([url], {})).rejects.toMatchObject({ message: expect.stringContaining("more than 10 redirects") });
    expect(requests).toBe(11);
  });

  it.each([400, 404, 500])("that answers %i is asked every 5 s and given up after 30 s (recording gates-500)", async (status) => {
    let requests = 0;
    const url = await serve((_, response) => {
      requests++;
      response.writeHead(status).end();
    });
    const clock = stoppedClock();
    await expect(awaitReadinessGates([`${url}/healthz`], {}, clock)).rejects.toMatchObject({
      word: "readiness-gate-closed",
      code: 999,
      message: `context deadline exceeded: readiness gate ${url}/healthz was not ready within 30 s, at last: status ${status}`,
    });
    expect(requests).toBe(6);
    expect(clock.sleeps).toEqual([5_000, 5_000, 5_000, 5_000, 5_000]);
  });

  it("that nobody serves is named, with what the connection came to, and without its password", async () => {
    const clock = stoppedClock();
    const error = await awaitReadinessGates(["http://user:secret@127.0.0.1:9/x?token=secret"], {}, clock).catch((thrown) => thrown);
    expect(String(error)).toMatch(/readiness gate http:\/\/127\.0\.0\.1:9\/x was not ready within 30 s, at last: .{10,}$/);
    expect(String(error)).not.toContain("secret");
  });

  it("that accepts and never answers is left after 5 s", async () => {
    const url = await serve(() => {});
    const started = performance.now();
    const end = async () => {
      throw new Error("asked long enough");
    };
    await expect(awaitReadinessGates([url], {}, { sleep: end })).rejects.toThrow("asked long enough");
    expect(performance.now() - started).toBeGreaterThanOrEqual(4_900);
  });

  it("comes after the one before it is ready", async () => {
    const asked: string[] = [];
    const first = await serve((_, response) => {
      asked.push("first");
      response.writeHead(asked.length < 3 ? 500 : 200).end();
    });
    const second = await serve((_, response) => {
      asked.push("second");
      response.end();
    });
    await awaitReadinessGates([first, second], {}, stoppedClock());
    expect(asked).toEqual(["first", "first", "first", "second"]);
  });
});

describe("readiness gates that are only looked at", () => {
  it("are each asked once", async () => {
    const paths: (string | undefined)[] = [];
    const url = await serve((request, response) => {
      paths.push(request.url);
      response.writeHead(request.url === "/b" ? 503 : 204).end();
    });
    await assertReadinessGates([], {});
    await assertReadinessGates([`${url}/a`], {});
    await expect(assertReadinessGates([`${url}/a`, `${url}/b`, `${url}/c`], {})).rejects.toMatchObject({
      word: "readiness-gate-closed",
      message: `readiness gate ${url}/b is not ready: status 503`,
    });
    expect(paths).toEqual(["/a", "/a", "/b"]);
  });
});
