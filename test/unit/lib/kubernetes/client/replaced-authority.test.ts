/** N5: a CA, or a client's certificate, that is replaced in its file while programs run. The servers speak real TLS. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { decodeNetworkConfig } from "../../../../../lib/config/decode.ts";
import { asDatastoreError as asEtcdFailure } from "../../../../../lib/datastore/etcd/answers.ts";
import { EtcdClient } from "../../../../../lib/datastore/etcd/etcd-client.ts";
import { resolveEtcdSettings } from "../../../../../lib/datastore/etcd/settings.ts";
import { asDatastoreError } from "../../../../../lib/datastore/kubernetes/resource-api.ts";
import { ApiError } from "../../../../../lib/kubernetes/api-client.ts";
import { openApiClient } from "../../../../../lib/kubernetes/client/client.ts";
import { ApiConnection } from "../../../../../lib/kubernetes/client/connection.ts";
import { resolveApiConfig } from "../../../../../lib/kubernetes/config/resolve.ts";
import { authority, keyPair, serve } from "../../../../support/api-behind-tls.ts";
import { closing } from "../../../../support/closing.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";
import { kubeconfigOf } from "../../../../support/kubeconfig.ts";
import type { TlsServer } from "../../../../support/tls-server.ts";
import { TestAuthority } from "../../../../support/tls-server-certificates.ts";

const renewed = new TestAuthority("renewed-authority");
const renewedPair = renewed.issue("/CN=api", "IP:127.0.0.1");
const dir = fresh(() => new TemporaryDirectory());
const file = (name: string) => join(dir.path, name);
const GET = { method: "GET", path: "/a" } as const;

/** Restarts a server on its port with a certificate of the renewed authority. */
function restart(server: TlsServer, options: { readonly clientAuthority?: string } = {}): TlsServer {
  const { port } = server;
  server[Symbol.dispose]();
  return serve(() => ({ status: 200 }), { keyPair: renewedPair, port, ...options });
}

describe("of an API server", () => {
  function start() {
    const server = serve(() => ({ status: 200 }));
    writeFileSync(file("ca.crt"), authority.certificate);
    writeFileSync(file("token"), "first");
    const cluster = { server: `https://127.0.0.1:${server.port}`, "certificate-authority": "ca.crt" };
    writeFileSync(file("kubeconfig"), JSON.stringify(kubeconfigOf(cluster, { tokenFile: "token" })));
    return { server, config: decodeNetworkConfig({ kubernetes: { kubeconfig: file("kubeconfig") } }) };
  }

  it("is read again by the client, with the token, for the request that met the refusal", async () => {
    const { server, config } = start();
    const client = closing(openApiClient(config, {}));
    expect(await client.request(GET)).toBe("{}");

    const next = restart(server);
    writeFileSync(file("ca.crt"), renewed.certificate);
    writeFileSync(file("token"), "second");
    expect(await Promise.all([client.request(GET), client.request(GET)])).toEqual(["{}", "{}"]);
    expect(next.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer second", "Bearer second"]);
  });

  it.each([
    ["request", (connection: ApiConnection) => connection.exchange(GET)],
    ["watch", (connection: ApiConnection) => connection.stream(GET, new AbortController().signal)],
  ])("is read again by the agent's connection for a %s, and health hears of the refusal", async (_, send) => {
    const { server, config } = start();
    const told: unknown[] = [];
    const connection = closing(new ApiConnection(resolveApiConfig(config, {}), (_call, status, _ms, fault) => told.push([status, fault])));
    expect((await send(connection)).status).toBe(200);

    restart(server);
    writeFileSync(file("ca.crt"), renewed.certificate);
    expect((await send(connection)).status).toBe(200);
    expect(told.slice(-2)).toEqual([
      [0, "untrusted"],
      [200, undefined],
    ]);
  });

  it("that stays the old one is named by its own word, and is read once in three seconds", async () => {
    const { server, config } = start();
    const resolved = resolveApiConfig(config, {});
    let reads = 0;
    const reload = () => {
      reads++;
      return { ...resolved, reload };
    };
    const connection = closing(new ApiConnection({ ...resolved, reload }));
    const client = closing(openApiClient(config, {}));
    restart(server);
    for (let request = 0; request < 5; request++) await expect(connection.exchange(GET)).rejects.toMatchObject({ failure: "untrusted" });
    expect(reads).toBe(1);

    const error = await client.request(GET).catch((thrown: unknown) => thrown);
    expect(error instanceof ApiError && asDatastoreError(error, "Pod(a/b)")).toMatchObject({
      failure: "unavailable",
      word: "datastore-untrusted",
      message: expect.stringContaining("certificate signed by unknown authority"),
    });
  });
});

describe("of an etcd", () => {
  function start(options: { readonly clientAuthority?: string } = {}) {
    const server = serve(() => ({ status: 200 }), { keyPair, ...options });
    writeFileSync(file("ca.crt"), authority.certificate);
    const own = authority.issue("/CN=tortie", undefined, 2, "clientAuth");
    writeFileSync(file("own.crt"), own.certificate);
    writeFileSync(file("own.key"), own.key);
    const config = decodeNetworkConfig({
      etcd_endpoints: `https://127.0.0.1:${server.port}`,
      etcd_ca_cert_file: file("ca.crt"),
      etcd_cert_file: file("own.crt"),
      etcd_key_file: file("own.key"),
    });
    return { server, client: closing(new EtcdClient(resolveEtcdSettings(config.etcd, {}), { limits: { firstPause: 5, refused: 200 } })) };
  }

  const ask = (client: EtcdClient) => client.ask("/v3/kv/range", {}, () => "read");

  it("is read again for the requests that met the refusal together", async () => {
    const { server, client } = start();
    expect(await ask(client)).toMatchObject({ value: "read" });
    restart(server);
    writeFileSync(file("ca.crt"), renewed.certificate);
    const answers = await Promise.all([ask(client), ask(client), ask(client)]);
    expect(answers.map(({ value }) => value)).toEqual(["read", "read", "read"]);
  });

  it("is read again for a watch", async () => {
    const { server, client } = start();
    await ask(client);
    restart(server);
    writeFileSync(file("ca.crt"), renewed.certificate);
    const { bytes } = await client.stream("/v3/watch", {}, new AbortController().signal);
    expect(await Array.fromAsync(bytes)).toHaveLength(1);
  });

  it("is read again together with our certificate, which the member refuses in the handshake", async () => {
    const { server, client } = start({ clientAuthority: authority.certificate });
    await ask(client);
    const old = server.port;
    server[Symbol.dispose]();
    serve(() => ({ status: 200 }), { keyPair, port: old, clientAuthority: renewed.certificate });
    const own = renewed.issue("/CN=tortie", undefined, 2, "clientAuth");
    writeFileSync(file("own.crt"), own.certificate);
    writeFileSync(file("own.key"), own.key);
    expect(await ask(client)).toMatchObject({ value: "read" });
  });

  it("that stays the old one is named by its own word", async () => {
    const { server, client } = start();
    restart(server);
    const error = await ask(client).catch((thrown: unknown) => thrown);
    expect(asEtcdFailure(error, "IPPool(a)", "")).toMatchObject({ failure: "unavailable", word: "datastore-untrusted" });
  });
});
