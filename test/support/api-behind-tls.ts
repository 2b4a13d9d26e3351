/** An API server behind TLS whose answers a test writes, and clients of it. They end with the test. */
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";
import { createApiClient } from "../../lib/kubernetes/client/client.ts";
import type { ClientLimits } from "../../lib/kubernetes/client/limits.ts";
import type { ApiConfig, ApiServer, Identity, ServerTrust } from "../../lib/kubernetes/config/api-config.ts";
import { closing } from "./closing.ts";
import { fresh } from "./fixtures.ts";
import { type Answering, TlsServer, type TlsServerOptions } from "./tls-server.ts";
import { TestAuthority } from "./tls-server-certificates.ts";

/** Signs the server's certificate, and is trusted by clients. */
export const authority = new TestAuthority();
export const keyPair = authority.issue("/CN=api", "IP:127.0.0.1,DNS:kubernetes.default.svc");

const servers = fresh(() => new DisposableStack());

export function serve(answer: Answering, options: Partial<TlsServerOptions> = {}): TlsServer {
  return servers.use(new TlsServer(answer, { keyPair, ...options }));
}

/** A client that does not wait long. */
export function connect(server: { readonly port: number }, change: ConfigChange = {}, limits: Partial<ClientLimits> = {}): ApiClient {
  return closing(createApiClient(apiConfigFor(server, change), { firstPause: 5, longestPause: 10, refused: 50, ...limits }));
}

/** Of its parts only what differs. */
export interface ConfigChange extends Partial<Omit<ApiConfig, "server" | "trust" | "identity">> {
  readonly server?: Partial<ApiServer>;
  readonly trust?: Partial<ServerTrust>;
  readonly identity?: Partial<Identity>;
}

/** What a client has to know of the server. */
export function apiConfigFor({ port }: { readonly port: number }, { server, trust, identity, ...change }: ConfigChange = {}): ApiConfig {
  const address = `127.0.0.1:${port}`;
  const config: ApiConfig = {
    server: { url: `https://${address}`, hostname: "127.0.0.1", port, isTls: true, authority: address, basePath: "", ...server },
    trust: { certificateAuthority: authority.certificate, serverName: undefined, skipVerify: false, ...trust },
    identity: {
      description: "the test",
      certificate: undefined,
      authorization: "Bearer first",
      headers: [],
      plugin: undefined,
      ...identity,
    },
    proxy: undefined,
    qps: 0,
    burst: 0,
    reload: () => config,
    ...change,
  };
  return config;
}
