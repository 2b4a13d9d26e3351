/**
 * The way through an HTTP proxy, by the runtime's `fetch`, which knows CONNECT. Slower than a connection of our own and rare, so it is
 * loaded only when a proxy is configured.
 */
import { messageOf } from "../../errors/errors.ts";
import { systemErrorCode } from "../../system/errno.ts";
import type { ApiConfig, ClientCertificate } from "../config/api-config.ts";
import { handshakeFailure } from "./connect-failure.ts";
import { type Transport, TransportError, type WireAnswer, type WireRequest } from "./transport.ts";

export class ProxiedTransport implements Transport {
  readonly #config: ApiConfig;
  readonly #proxy: string;
  readonly #tls: Bun.TLSOptions;
  readonly #closing = new AbortController();

  constructor(config: ApiConfig, proxy: string, certificate: ClientCertificate | undefined) {
    this.#config = config;
    this.#proxy = proxy;
    const { certificateAuthority, skipVerify, serverName } = config.trust;
    this.#tls = {
      rejectUnauthorized: !skipVerify,
      ...(serverName === undefined ? {} : { serverName }),
      ...(certificateAuthority === undefined ? {} : { ca: certificateAuthority }),
      ...(certificate === undefined ? {} : { cert: certificate.certificate, key: certificate.key }),
    };
  }

  async exchange(request: WireRequest, limitMs: number): Promise<WireAnswer> {
    const { server } = this.#config;
    const headers = new Headers();
    for (const [name, value] of request.headers) headers.append(name, value);
    const timeout = AbortSignal.timeout(limitMs);
    try {
      const response = await fetch(`${server.isTls ? "https" : "http"}://${server.authority}${request.target}`, {
        method: request.method,
        headers,
        body: request.body ?? null,
        proxy: this.#proxy,
        tls: this.#tls,
        redirect: "manual",
        signal: AbortSignal.any([timeout, this.#closing.signal]),
      });
      return {
        status: response.status,
        contentType: response.headers.get("content-type") ?? "",
        retryAfter: response.headers.get("retry-after") ?? "",
        body: await response.text(),
      };
    } catch (error) {
      throw this.#failure(error, timeout.aborted ? limitMs : undefined);
    }
  }

  connect(): void {}

  close(): void {
    this.#closing.abort();
  }

  /** The proxy's URL may hold a password: only its host is named. */
  #failure(error: unknown, limitMs: number | undefined): TransportError {
    const through = `through proxy ${new URL(this.#proxy).host}`;
    if (limitMs !== undefined) {
      return new TransportError("timeout", `no answer ${through} within ${Math.round(limitMs) / 1000} s`, { wasSent: true, cause: error });
    }
    const code = systemErrorCode(error) ?? "";
    if (code.includes("CERT") || code.includes("VERIFY") || code.includes("SIGNATURE")) {
      const serverName = this.#config.trust.serverName ?? this.#config.server.hostname;
      return new TransportError("untrusted", `${through}: ${handshakeFailure(error, serverName)}`, { cause: error });
    }
    if (code === "ConnectionRefused" || code === "ECONNREFUSED" || code === "FailedToOpenSocket") {
      return new TransportError("not-connected", `${through}: connect: connection refused`, { cause: error });
    }
    return new TransportError("broken", `${through}: ${messageOf(error)}`, { wasSent: true, cause: error });
  }
}
