/** What a client has to know of a TlsServer. */
import type { ApiConfig } from "../../lib/kubernetes/config/api-config.ts";
import type { TlsServer } from "./tls-server.ts";

/** @param authority PEM of the authority to trust; `undefined`: the server speaks plain HTTP */
export function apiConfigFor(server: Pick<TlsServer, "port">, authority: string | undefined, change: Partial<ApiConfig> = {}): ApiConfig {
  const config: ApiConfig = {
    server: {
      url: `${authority === undefined ? "http" : "https"}://127.0.0.1:${server.port}`,
      hostname: "127.0.0.1",
      port: server.port,
      isTls: authority !== undefined,
      authority: `127.0.0.1:${server.port}`,
      basePath: "",
    },
    trust: { certificateAuthority: authority, serverName: undefined, skipVerify: false },
    identity: { description: "the test", certificate: undefined, authorization: "Bearer first", headers: [], plugin: undefined },
    proxy: undefined,
    qps: 0,
    burst: 0,
    reload: () => config,
    ...change,
  };
  return config;
}
