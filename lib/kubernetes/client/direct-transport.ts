/** One connection at a time; a new one is made when the old one has ended and something is to be asked. */
import type { ApiConfig, ClientCertificate } from "../config/api-config.ts";
import { Connection, type Endpoint } from "./connection.ts";
import type { Transport, WireAnswer, WireRequest } from "./transport.ts";

export class DirectTransport implements Transport {
  readonly #endpoint: Endpoint;
  #connection: Connection | undefined;

  constructor(config: Pick<ApiConfig, "server" | "trust">, certificate: ClientCertificate | undefined) {
    this.#endpoint = endpointOf(config, certificate);
  }

  exchange(request: WireRequest, limitMs: number): Promise<WireAnswer> {
    const former = this.#connection;
    if (former !== undefined && !former.isClosed) return former.exchange(request, limitMs);
    // What ended the first one may be something in between that does not bear several questions at once.
    this.#connection = new Connection(this.#endpoint, former === undefined);
    return this.#connection.exchange(request, limitMs);
  }

  connect(): void {
    this.#connection ??= new Connection(this.#endpoint, true);
  }

  close(): void {
    this.#connection?.close();
  }
}

function endpointOf({ server, trust }: Pick<ApiConfig, "server" | "trust">, certificate: ClientCertificate | undefined): Endpoint {
  const { hostname, port, authority } = server;
  if (!server.isTls) return { hostname, port, authority, tls: undefined };
  return {
    hostname,
    port,
    authority,
    tls: {
      certificateAuthority: trust.certificateAuthority,
      serverName: trust.serverName ?? hostname,
      skipVerify: trust.skipVerify,
      certificate: certificate?.certificate,
      key: certificate?.key,
    },
  };
}
