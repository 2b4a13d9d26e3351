import { connect, createServer, type Server, type Socket } from "node:net";
import { createApiClient } from "../../../../../lib/kubernetes/client/http-api-client.ts";
import { TlsServer } from "../../../../support/tls-server.ts";
import { TestAuthority } from "../../../../support/tls-server-certificates.ts";
import { apiConfigFor } from "../../../../support/tls-server-config.ts";

const authority = new TestAuthority();
const keyPair = authority.issue("/CN=api", "IP:127.0.0.1");

/** An HTTP proxy that knows CONNECT and nothing else; `seen` has the heads of the requests it got. */
class ConnectProxy {
  readonly seen: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  port = 0;

  constructor(status = "200 Connection established") {
    this.#server = createServer((client) => {
      this.#sockets.add(client);
      client.on("error", () => {});
      client.once("data", (bytes) => {
        const head = bytes.toString();
        this.seen.push(head);
        const target = /^CONNECT 127\.0\.0\.1:(\d+) /.exec(head)?.[1];
        if (target === undefined || !status.startsWith("200")) {
          client.end(`HTTP/1.1 ${status}\r\n\r\n`);
          return;
        }
        const server = connect(Number(target), "127.0.0.1", () => client.write(`HTTP/1.1 ${status}\r\n\r\n`));
        this.#sockets.add(server);
        server.on("error", () => client.destroy());
        client.pipe(server).pipe(client);
      });
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    if (address !== null && typeof address === "object") this.port = address.port;
    return this;
  }

  stop(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

describe("the API client behind an HTTP proxy", () => {
  const cleanup: (() => void)[] = [];
  afterEach(() => {
    for (const step of cleanup.splice(0).reverse()) step();
  });

  async function start(status?: string, trusted = authority) {
    const server = new TlsServer(({ target }) => ({ status: 200, body: JSON.stringify(target) }), { keyPair });
    const proxy = await new ConnectProxy(status).start();
    const client = createApiClient(apiConfigFor(server, trusted.certificate, { proxy: `http://me:s3cr3t@127.0.0.1:${proxy.port}` }), {
      firstPause: 5,
      longestPause: 10,
      repetitions: 1,
      refused: 20,
    });
    cleanup.push(
      () => server[Symbol.dispose](),
      () => proxy.stop(),
      () => client.close(),
    );
    return { server, proxy, client };
  }

  it("asks it for a way to the server, which it talks TLS with, one request after the other", async () => {
    const { server, proxy, client } = await start();

    const paths = ["/1", "/2", "/3"];
    expect(await Promise.all(paths.map((path) => client.request({ method: "GET", path })))).toEqual(
      paths.map((path) => JSON.stringify(path)),
    );
    expect(await client.request({ method: "POST", path: "/4", body: "{}" })).toBe('"/4"');

    expect(server.asked).toEqual(["GET /1", "GET /2", "GET /3", "POST /4"]);
    expect(server.requests[3]).toMatchObject({
      body: "{}",
      headers: { authorization: "Bearer first", "content-type": "application/json" },
    });
    expect(server.connections).toBe(1);
    expect(proxy.seen[0]).toContain(`CONNECT 127.0.0.1:${server.port} HTTP/1.1`);
    expect(proxy.seen[0]).toContain(`Proxy-Authorization: Basic ${btoa("me:s3cr3t")}`);
    expect(proxy.seen.join()).not.toContain("Bearer");
  });

  it("judges the server's certificate all the same", async () => {
    const { server, client } = await start(undefined, new TestAuthority("stranger"));

    await expect(client.request({ method: "GET", path: "/a" })).rejects.toMatchObject({
      status: 0,
      message: expect.stringMatching(
        /through proxy 127\.0\.0\.1:\d+: tls: failed to verify certificate: certificate signed by unknown authority/,
      ),
    });
    expect(server.requests).toEqual([]);
  });

  it.each(["403 Forbidden", "502 Bad Gateway"])("says that it was the proxy that refused: %s", async (status) => {
    const { server, client } = await start(status);

    const error: unknown = await client.request({ method: "GET", path: "/a" }).catch((thrown: unknown) => thrown);

    expect(error).toMatchObject({ name: "ApiError" });
    expect(Bun.inspect(error)).not.toContain("s3cr3t");
    expect(server.requests).toEqual([]);
  });

  it("says that the proxy is not there", async () => {
    const { proxy, client } = await start();
    proxy.stop();

    await expect(client.request({ method: "GET", path: "/a" })).rejects.toMatchObject({
      status: 0,
      message: expect.stringMatching(/through proxy 127\.0\.0\.1:\d+: connect: connection refused/),
    });
  });
});
