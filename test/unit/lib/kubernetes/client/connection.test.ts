import type { ApiClient } from "../../../../../lib/kubernetes/api-client.ts";
import { DEFAULT_LIMITS } from "../../../../../lib/kubernetes/client/limits.ts";
import { authority, connect, keyPair, serve } from "../../../../support/api-behind-tls.ts";
import { closing } from "../../../../support/closing.ts";
import type { Answering } from "../../../../support/tls-server.ts";
import { TestAuthority } from "../../../../support/tls-server-certificates.ts";
import { serveWeb } from "../../../../support/web-server.ts";

const echo: Answering = ({ target }) => ({ status: 200, body: JSON.stringify({ target }) });

describe("the connection of the API client", () => {
  const get = (client: ApiClient, path = "/a") => client.request({ method: "GET", path });

  it("asks everything over one TLS connection", async () => {
    const server = serve(echo);
    const client = connect(server);

    for (const path of ["/1", "/2", "/3"]) expect(await get(client, path)).toBe(JSON.stringify({ target: path }));
    await Promise.all(["/4", "/5"].map((path) => get(client, path)));

    expect(server.asked).toEqual(["GET /1", "GET /2", "GET /3", "GET /4", "GET /5"]);
    expect(server.connections).toBe(1);
  });

  it("sends method, host, credentials, type and length", async () => {
    const server = serve(echo);
    const client = connect(server);

    await client.request({ method: "PATCH", path: "/p?x=1", body: '{"ü":1}', contentType: "application/merge-patch+json" });
    await client.request({ method: "POST", path: "/q", body: "{}" });

    expect(server.requests[0]).toMatchObject({
      method: "PATCH",
      target: "/p?x=1",
      body: '{"ü":1}',
      headers: {
        host: `127.0.0.1:${server.port}`,
        "user-agent": expect.stringMatching(/^tortie\/\d/),
        accept: "application/json",
        authorization: "Bearer first",
        "content-type": "application/merge-patch+json",
        "content-length": "8",
      },
    });
    expect(server.requests[1]?.headers["content-type"]).toBe("application/json");
  });

  it("puts the path of the server before every path", async () => {
    const server = serve(echo);
    const client = connect(server, { server: { basePath: "/k8s/clusters/c1" } });

    await get(client, "/api/v1");

    expect(server.asked).toEqual(["GET /k8s/clusters/c1/api/v1"]);
  });

  it("asks what is asked for together one after the other, in the order of the calls", async () => {
    const gate = Promise.withResolvers<void>();
    const server = serve(async (request, index) => {
      if (index === 0) await gate.promise;
      return echo(request, index);
    });
    const client = connect(server);

    const put = (path: string) => client.request({ method: "PUT", path, body: '{"resourceVersion":"1"}' });
    const asked = [get(client, "/1"), get(client, "/2"), put("/3"), put("/4"), get(client, "/5")];
    while (server.asked.length === 0) await Bun.sleep(1);
    await Bun.sleep(50);
    expect(server.asked).toEqual(["GET /1"]);
    gate.resolve();

    expect(await Promise.all(asked)).toEqual(["/1", "/2", "/3", "/4", "/5"].map((target) => JSON.stringify({ target })));
    expect(server.asked).toEqual(["GET /1", "GET /2", "PUT /3", "PUT /4", "GET /5"]);
    expect(server.connections).toBe(1);
  });

  it("asks over as many connections as it is allowed, and no more", async () => {
    const gate = Promise.withResolvers<void>();
    const server = serve(async (request, index) => {
      await gate.promise;
      return echo(request, index);
    });
    const client = connect(server, {}, { connections: 3 });

    const asked = ["/1", "/2", "/3", "/4", "/5"].map((path) => get(client, path));
    while (server.asked.length < 3) await Bun.sleep(1);
    await Bun.sleep(50);
    expect(server.asked).toHaveLength(3);
    gate.resolve();
    await Promise.all(asked);

    expect(server.connections).toBe(3);
  });

  it("fails what is under way when it is closed, and asks it of nobody again", async () => {
    const asked = Promise.withResolvers<void>();
    const server = serve(() => {
      asked.resolve();
      return "hold";
    });
    const client = connect(server);
    const waiting = get(client);
    await asked.promise;
    client.close();
    // Well before the limit of one try, which would end it too.
    const ended = await Promise.race([waiting.catch((error: unknown) => error), Bun.sleep(DEFAULT_LIMITS.try / 2)]);
    expect(ended).toMatchObject({ name: "ApiError", status: 0 });
    expect(server.requests).toHaveLength(1);
  });

  it("ends its connection when it is closed, and keeps no process alive", async () => {
    const server = serve(echo);
    const client = connect(server);
    await get(client);
    expect(server.open).toBe(1);

    client.close();
    while (server.open > 0) await Bun.sleep(1);
  });

  it("shares its connections with no other client", async () => {
    const server = serve(echo);
    const trusting = connect(server);
    await get(trusting);
    const stranger = connect(server, { trust: { certificateAuthority: new TestAuthority("stranger").certificate } });

    await expect(get(stranger)).rejects.toMatchObject({ message: expect.stringContaining("unknown authority") });
    await get(connect(server));
    expect(server.asked).toHaveLength(2);
  });

  it("asks for no compression, and follows no redirect", async () => {
    const server = serve(({ target }) => (target === "/a" ? { status: 302, headers: { Location: "/b" } } : { status: 200 }));

    await expect(get(connect(server))).rejects.toMatchObject({ fault: "foreign", message: expect.stringContaining("status 302") });
    expect(server.asked).toEqual(["GET /a"]);
    expect(server.requests[0]?.headers["accept-encoding"]).toBe("identity");
  });

  it("takes bodies of many megabytes, in both directions", async () => {
    const large = JSON.stringify({ a: "ä".repeat(3_000_000) });
    const server = serve(({ body }) => ({ status: 200, body }));
    const client = connect(server);

    expect(await client.request({ method: "POST", path: "/", body: large })).toBe(large);
  });

  it("takes chunked answers", async () => {
    const server = serve(() => ({
      raw: 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{"\r\n5\r\na":1}\r\n0\r\n\r\n',
    }));

    expect(await get(connect(server))).toBe('{"a":1}');
  });

  it("takes characters that come in two pieces", async () => {
    const bytes = Buffer.from('{"a":"\u20ac"}');
    const { url } = await serveWeb((_, response) => {
      response.writeHead(200, { "Content-Type": "application/json" }).write(bytes.subarray(0, 7));
      // What is sent at once is read at once.
      setTimeout(() => response.end(bytes.subarray(7)), 100);
    });
    const port = Number(new URL(url).port);

    expect(await get(connect({ port }, { server: { isTls: false } }))).toBe('{"a":"\u20ac"}');
  });

  it("connects anew when the server has ended the connection in between", async () => {
    const server = serve(() => ({
      raw: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
      close: true,
    }));
    const client = connect(server);

    await get(client);
    await Bun.sleep(20);
    await client.request({ method: "POST", path: "/", body: "{}" });

    expect(server.connections).toBe(2);
    expect(server.requests).toHaveLength(2);
  });

  it("works without TLS", async () => {
    const server = serve(echo, { keyPair: undefined });

    expect(await get(connect(server, { server: { isTls: false } }))).toBe('{"target":"/a"}');
  });

  it("reaches an IPv6 address", async () => {
    const v6 = authority.issue("/CN=api6", "IP:::1");
    const server = serve(echo, { keyPair: v6, hostname: "::1" });
    const client = connect(server, { server: { hostname: "::1", authority: `[::1]:${server.port}` } });

    expect(await get(client)).toBe('{"target":"/a"}');
    expect(server.requests[0]?.headers.host).toBe(`[::1]:${server.port}`);
  });

  it("gives up a load balancer without servers as soon as a server that refuses", async () => {
    let connections = 0;
    const balancer = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open(socket) {
          connections++;
          socket.end();
        },
        data() {},
      },
    });
    closing({ close: () => balancer.stop(true) });
    const client = connect(balancer);

    await expect(get(client)).rejects.toMatchObject({
      status: 0,
      message: expect.stringContaining("the server ended the connection before it answered anything"),
    });

    // As long as `refused` allows: 5, 10, 10, … ms between them.
    expect(connections).toBeGreaterThan(1);
    expect(connections).toBeLessThan(9);
  });

  describe("judges the server's certificate", () => {
    const refusal = (client: ApiClient, explanation: RegExp) =>
      expect(get(client)).rejects.toMatchObject({ name: "ApiError", status: 0, message: expect.stringMatching(explanation) });

    it("refuses one of an authority it does not know, before anything is sent, and does not try again", async () => {
      const server = serve(echo);
      const client = connect(server, { trust: { certificateAuthority: new TestAuthority("stranger").certificate } });

      await refusal(
        client,
        /^GET https:\/\/127\.0\.0\.1:\d+\/a: tls: failed to verify certificate: certificate signed by unknown authority/,
      );

      expect(server.requests).toEqual([]);
      expect(server.connections).toBe(1);
    });

    it("refuses one that has expired", async () => {
      const server = serve(echo, { keyPair: authority.issue("/CN=old", "IP:127.0.0.1", -1) });

      await refusal(connect(server), /certificate has expired/);
    });

    it.each(["IP:127.0.0.2,DNS:elsewhere", "DNS:127.0.0.1"])("refuses one for %s only", async (names) => {
      const server = serve(echo, { keyPair: authority.issue("/CN=127.0.0.1", names) });

      await refusal(connect(server), /certificate is not valid for 127\.0\.0\.1/);
      expect(server.requests).toEqual([]);
    });

    it.each(["IP:127.0.0.1", undefined])("L1: never takes the Common Name for the name of the server (names: %s)", async (names) => {
      const server = serve(echo, { keyPair: authority.issue("/CN=kubernetes.default.svc", names) });
      const client = connect(server, { trust: { serverName: "kubernetes.default.svc" } });

      await refusal(client, /certificate is not valid for kubernetes\.default\.svc/);
      expect(server.requests).toEqual([]);
    });

    it("takes a wildcard for one label of a name, over one connection", async () => {
      const server = serve(echo, { keyPair: authority.issue("/CN=x", "DNS:*.default.svc") });
      const named = (serverName: string) => connect(server, { trust: { serverName } });
      const client = named("kubernetes.default.svc");

      for (const path of ["/1", "/2", "/3"]) expect(await get(client, path)).toBe(JSON.stringify({ target: path }));
      expect(server.connections).toBe(1);
      await refusal(named("a.kubernetes.default.svc"), /certificate is not valid for a\.kubernetes\.default\.svc/);
    });

    it("L11: refuses one that is no server's, and does not try again", async () => {
      const server = serve(echo, { keyPair: authority.issue("/CN=me", "IP:127.0.0.1", 2, "clientAuth") });

      await refusal(connect(server), /tls: failed to verify certificate: .*purpose/);
      expect(server.requests).toEqual([]);
      expect(server.connections).toBe(1);
    });

    it("asks for the name that is configured, and looks for it in the certificate", async () => {
      const server = serve(echo);
      const named = (serverName: string) => connect(server, { trust: { serverName } });

      expect(await get(named("kubernetes.default.svc"))).toBe('{"target":"/a"}');
      expect(server.serverNames).toEqual(["kubernetes.default.svc"]);
      await refusal(named("kubernetes.example.org"), /certificate is not valid for kubernetes\.example\.org/);
    });

    it("takes any certificate when told to", async () => {
      const server = serve(echo, { keyPair: new TestAuthority("stranger").issue("/CN=x", "DNS:x", -1) });
      const client = connect(server, { trust: { certificateAuthority: undefined, skipVerify: true } });

      expect(await get(client)).toBe('{"target":"/a"}');
    });

    it("says which side is at fault when its own material is unusable", async () => {
      const server = serve(echo);
      const other = authority.issue("/CN=other", "DNS:other");
      const certificate = { certificate: keyPair.certificate, key: other.key };

      await refusal(connect(server, { identity: { certificate } }), /a certificate or key of the configuration is unusable/);
      const certificateAuthority = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
      await refusal(connect(server, { trust: { certificateAuthority } }), /tls: /);
    });
  });

  it("shows its certificate to a server that asks for one", async () => {
    const server = serve(echo, { clientAuthority: authority.certificate });
    const certificate = authority.issue("/O=system:nodes/CN=me", "DNS:me");

    expect(await get(connect(server, { identity: { certificate } }))).toBe('{"target":"/a"}');
    await expect(get(connect(server))).rejects.toMatchObject({ status: 0 });
    expect(server.requests).toHaveLength(1);
  });
});
