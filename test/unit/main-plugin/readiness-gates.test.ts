import { assertReadinessGates, awaitReadinessGates } from "../../../main-plugin/gates.ts";
import { fresh } from "../../support/fixtures.ts";
import { serveWeb } from "../../support/web-server.ts";

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

const clock = fresh(stoppedClock);

describe("a readiness gate", () => {
  it("that is ready costs one request and no wait (design §8)", async () => {
    const { url, asked } = await serveWeb((_, response) => response.end("ready"));
    await awaitReadinessGates([url], {}, clock);
    expect({ requests: asked.length, sleeps: clock.sleeps }).toEqual({ requests: 1, sleeps: [] });
  });

  it.each([200, 204, 304, 399])("is ready with status %i", async (status) => {
    const { url } = await serveWeb((_, response) => response.writeHead(status).end());
    await awaitReadinessGates([url], {}, clock);
    expect(clock.sleeps).toEqual([]);
  });

  it("is asked where it redirects to", async () => {
    const { url, asked } = await serveWeb((request, response) => {
      if (request.url === "/old") response.writeHead(302, { location: "/new" }).end();
      else response.writeHead(asked.length < 4 ? 503 : 200).end();
    });
    await awaitReadinessGates([`${url}/old`], {}, clock);
    expect(asked).toEqual(["/old", "/new", "/old", "/new"]);
    expect(clock.sleeps).toEqual([5_000]);
  });

  it.each([301, 302, 303, 307, 308])("is followed by status %i", async (status) => {
    const { url } = await serveWeb((request, response) => {
      if (request.url === "/old") response.writeHead(status, { location: "/new" }).end();
      else response.writeHead(503).end();
    });
    await expect(assertReadinessGates([`${url}/old`], {})).rejects.toMatchObject({ message: expect.stringContaining("status 503") });
  });

  it("L7: is not looked for through a proxy on this machine, nor where NO_PROXY names it, at any step of the way", async () => {
    const { url } = await serveWeb((request, response) => {
      if (request.url === "/old") response.writeHead(302, { location: "http://gate.example:80/new" }).end();
      else response.end();
    });
    const { url: proxy, asked: proxied } = await serveWeb((_, response) => response.end());

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
    const { url, asked } = await serveWeb((_, response) => response.writeHead(302, { location: "/again" }).end());

    await expect(assertReadinessGates([url], {})).rejects.toMatchObject({ message: expect.stringContaining("more than 10 redirects") });
    expect(asked).toHaveLength(11);
  });

  it.each([400, 404, 500])("that answers %i is asked every 5 s and given up after 30 s (recording gates-500)", async (status) => {
    const { url, asked } = await serveWeb((_, response) => response.writeHead(status).end());
    await expect(awaitReadinessGates([`${url}/healthz`], {}, clock)).rejects.toMatchObject({
      word: "readiness-gate-closed",
      code: 999,
      message: `context deadline exceeded: readiness gate ${url}/healthz was not ready within 30 s, at last: status ${status}`,
    });
    expect(asked).toHaveLength(6);
    expect(clock.sleeps).toEqual([5_000, 5_000, 5_000, 5_000, 5_000]);
  });

  it("that nobody serves is named, with what the connection came to, and without its password", async () => {
    const error = await awaitReadinessGates(["http://user:secret@127.0.0.1:9/x?token=secret"], {}, clock).catch((thrown) => thrown);
    expect(String(error)).toMatch(/readiness gate http:\/\/127\.0\.0\.1:9\/x was not ready within 30 s, at last: .{10,}$/);
    expect(String(error)).not.toContain("secret");
  });

  it("that accepts and never answers is left after 5 s", async () => {
    const { url } = await serveWeb(() => {});
    const started = performance.now();
    const end = async () => {
      throw new Error("asked long enough");
    };
    await expect(awaitReadinessGates([url], {}, { sleep: end })).rejects.toThrow("asked long enough");
    expect(performance.now() - started).toBeGreaterThanOrEqual(4_900);
  });

  it("comes after the one before it is ready", async () => {
    const asked: string[] = [];
    const first = await serveWeb((_, response) => {
      asked.push("first");
      response.writeHead(asked.length < 3 ? 500 : 200).end();
    });
    const second = await serveWeb((_, response) => {
      asked.push("second");
      response.end();
    });
    await awaitReadinessGates([first.url, second.url], {}, clock);
    expect(asked).toEqual(["first", "first", "first", "second"]);
  });
});

describe("readiness gates that are only looked at", () => {
  it("are each asked once", async () => {
    const { url, asked } = await serveWeb((request, response) => response.writeHead(request.url === "/b" ? 503 : 204).end());
    await assertReadinessGates([], {});
    await assertReadinessGates([`${url}/a`], {});
    await expect(assertReadinessGates([`${url}/a`, `${url}/b`, `${url}/c`], {})).rejects.toMatchObject({
      word: "readiness-gate-closed",
      message: `readiness gate ${url}/b is not ready: status 503`,
    });
    expect(asked).toEqual(["/a", "/a", "/b"]);
  });
});
