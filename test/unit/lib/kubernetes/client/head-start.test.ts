/** Making the connection before anything is asked over it: it saves time, and may neither fail nor cost anything by itself. */
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ApiClient } from "../../../../../lib/kubernetes/api-client.ts";
import { createApiClient } from "../../../../../lib/kubernetes/client/http-api-client.ts";
import type { ApiConfig, CredentialPlugin } from "../../../../../lib/kubernetes/config/api-config.ts";
import { TlsServer, type TlsServerOptions } from "../../../../support/tls-server.ts";
import { TestAuthority } from "../../../../support/tls-server-certificates.ts";
import { apiConfigFor } from "../../../../support/tls-server-config.ts";

const authority = new TestAuthority();
const keyPair = authority.issue("/CN=api", "IP:127.0.0.1");

/** A credential plugin that leaves a file. */
function noting(file: string): CredentialPlugin {
  return {
    apiVersion: "client.authentication.k8s.io/v1",
    command: "/usr/bin/touch",
    args: [file],
    env: {},
    needsTerminal: false,
    installHint: "",
    cluster: undefined,
  };
}

describe("a connection that is begun before the first request", () => {
  const cleanup: (() => void)[] = [];
  afterEach(() => {
    for (const step of cleanup.splice(0).reverse()) step();
  });

  function serve(options: Partial<TlsServerOptions> = {}): TlsServer {
    const server = new TlsServer(({ target }) => ({ status: 200, body: JSON.stringify({ target }) }), { keyPair, ...options });
    cleanup.push(() => server[Symbol.dispose]());
    return server;
  }

  function clientOf(config: ApiConfig): ApiClient {
    const client = createApiClient(config, { refused: 50, firstPause: 5, longestPause: 10 });
    cleanup.push(() => client.close());
    return client;
  }

  const marker = join(tmpdir(), `tortie-head-start-${process.pid}`);
  const get = (client: ApiClient, path = "/a") => client.request({ method: "GET", path });
  /** Long enough for a handshake on this machine. */
  const aMoment = () => Bun.sleep(60);

  it("is there when the request comes, which uses it", async () => {
    const server = serve();
    const client = clientOf(apiConfigFor(server, authority.certificate));

    client.connect();
    client.connect();
    await aMoment();
    expect({ connections: server.connections, asked: server.asked }).toEqual({ connections: 1, asked: [] });
    expect(await Promise.all([get(client, "/1"), get(client, "/2")])).toHaveLength(2);

    expect(server.connections).toBe(1);
    expect(server.mostUnanswered[1]).toBe(2);
  });

  it("may be asked over before it is there", async () => {
    const server = serve();
    const client = clientOf(apiConfigFor(server, authority.certificate));

    client.connect();
    await get(client);
    client.connect();
    await aMoment();

    expect({ connections: server.connections, asked: server.asked }).toEqual({ connections: 1, asked: ["GET /a"] });
  });

  it("is nobody's failure while nothing is asked: the first request says what is wrong", async () => {
    const server = serve();
    const config = apiConfigFor(server, authority.certificate);
    server[Symbol.dispose]();
    const client = clientOf(config);

    client.connect();
    await aMoment();

    await expect(get(client)).rejects.toMatchObject({ name: "ApiError", message: expect.stringContaining(config.server.url) });
  });

  it("to a server that nobody trusts is refused at the first request", async () => {
    const server = serve();
    const client = clientOf(apiConfigFor(server, new TestAuthority().certificate));

    client.connect();
    await aMoment();

    await expect(get(client)).rejects.toThrow(/certificate/);
    expect(server.asked).toEqual([]);
  });

  it("is made again when the server has closed it before anything was asked", async () => {
    const server = serve();
    const config = apiConfigFor(server, authority.certificate);
    const client = clientOf(config);
    client.connect();
    await aMoment();
    const { port } = server;
    server[Symbol.dispose]();
    const second = serve({ port });
    await aMoment();

    await get(client);

    expect(second.asked).toEqual(["GET /a"]);
  });

  it("is closed with the client, at whatever moment", async () => {
    const server = serve();
    for (const wait of [undefined, Promise.resolve(), Bun.sleep(1), Bun.sleep(30)]) {
      const client = clientOf(apiConfigFor(server, authority.certificate));
      client.connect();
      await wait;
      client.close();
    }
    await aMoment();
    expect(server.open).toBe(0);
  });

  it.each([
    ["a proxy stands between", (config: ApiConfig): ApiConfig => ({ ...config, proxy: config.server.url.replace("https", "http") })],
    [
      "a program gives the credentials",
      (config: ApiConfig): ApiConfig => ({ ...config, identity: { ...config.identity, plugin: noting(marker) } }),
    ],
  ])("is left to the request where %s", async (_, change) => {
    const server = serve();
    const client = clientOf(change(apiConfigFor(server, authority.certificate)));

    client.connect();
    await aMoment();

    expect({ connections: server.connections, hasRun: existsSync(marker) }).toEqual({ connections: 0, hasRun: false });
  });
});
