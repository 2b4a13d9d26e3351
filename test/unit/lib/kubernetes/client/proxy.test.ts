import { join } from "node:path";
import { execa } from "execa";
import { apiConfigFor, authority, connect, keyPair, serve } from "../../../../support/api-behind-tls.ts";
import { closing } from "../../../../support/closing.ts";
import { ConnectProxy } from "../../../../support/connect-proxy.ts";
import { TestAuthority } from "../../../../support/tls-server-certificates.ts";

describe("the API client behind an HTTP proxy", () => {
  async function start(status?: string, trusted = authority, shown = keyPair) {
    const server = serve(({ target }) => ({ status: 200, body: JSON.stringify({ target }) }), { keyPair: shown });
    const proxy = closing(await new ConnectProxy(status).start());
    const change = { proxy: `http://me:s3cr3t@127.0.0.1:${proxy.port}`, trust: { certificateAuthority: trusted.certificate } };
    const client = connect(server, change, { repetitions: 1, refused: 20 });
    return { server, proxy, client };
  }

  it("asks it for a way to the server, which it talks TLS with, one request after the other", async () => {
    const { server, proxy, client } = await start();

    const paths = ["/1", "/2", "/3"];
    expect(await Promise.all(paths.map((path) => client.request({ method: "GET", path })))).toEqual(
      paths.map((target) => JSON.stringify({ target })),
    );
    expect(await client.request({ method: "POST", path: "/4", body: "{}" })).toBe('{"target":"/4"}');

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
        /tls: failed to verify certificate: certificate signed by unknown authority .*through proxy 127\.0\.0\.1:\d+/,
      ),
    });
    expect(server.requests).toEqual([]);
  });

  it("L11: refuses a certificate that is no server's, and does not try again", async () => {
    const { server, proxy, client } = await start(undefined, authority, authority.issue("/CN=me", "IP:127.0.0.1", 2, "clientAuth"));

    await expect(client.request({ method: "GET", path: "/a" })).rejects.toMatchObject({
      message: expect.stringMatching(/tls: failed to verify certificate: .*purpose/),
    });
    expect({ asked: server.requests, tries: proxy.seen.length }).toEqual({ asked: [], tries: 1 });
  });

  it("L1: never takes the Common Name for the name of the server", async () => {
    const { server, client } = await start(undefined, authority, authority.issue("/CN=127.0.0.1", undefined));

    await expect(client.request({ method: "GET", path: "/a" })).rejects.toMatchObject({
      message: expect.stringContaining("certificate is not valid for 127.0.0.1"),
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
    proxy.close();

    await expect(client.request({ method: "GET", path: "/a" })).rejects.toMatchObject({
      status: 0,
      message: expect.stringMatching(/through proxy 127\.0\.0\.1:\d+: connect: connection refused/),
    });
  });

  it.each([
    ["a server that is reached directly", undefined, "HTTPS_PROXY"],
    ["a server that NO_PROXY names, behind the proxy of the configuration", "proxy-url", "NO_PROXY"],
  ])("does not look at the variables of the environment itself: %s", async (_what, configured, variable) => {
    const server = serve(() => ({ status: 200 }));
    const proxy = closing(await new ConnectProxy().start());
    const url = `http://127.0.0.1:${proxy.port}`;
    const { reload, ...config } = apiConfigFor(server, { proxy: configured && url });
    const value = variable === "NO_PROXY" ? "*" : url;

    // The runtime reads them when it starts.
    const { stdout } = await execa(
      process.execPath,
      [join(__dirname, "../../../../support/programs/ask-once.ts"), JSON.stringify(config)],
      { env: { [variable]: value, [variable.toLowerCase()]: value } },
    );

    expect(stdout).toBe("{}");
    expect(proxy.seen).toHaveLength(configured === undefined ? 0 : 1);
  });
});
