/** The session of a client and the one that follows it: credentials expire, and a server may refuse them before that. */
import { Secrets } from "../../log/secrets.ts";
import type { ApiCall } from "../api-client.ts";
import type { ApiConfig, ClientCertificate } from "../config/api-config.ts";
import { Transport, type WireRequest } from "./transport.ts";

export class Sessions {
  /** What was told and must not be told on, for ever: a server may repeat it late. */
  readonly secrets = new Secrets();
  #config: ApiConfig;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #isClosed = false;

  /** Nothing is connected, and no credential plugin run, before the first `current`. */
  constructor(config: ApiConfig) {
    this.#config = config;
  }

  get config(): ApiConfig {
    return this.#config;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** @throws TortieError `credentials-failed` */
  async current(): Promise<Session> {
    return this.#session !== undefined && !isExpired(this.#session) ? this.#session : await this.#open(this.#session);
  }

  /** Reads the credentials again that the server refused, unless another request has seen to it. @throws TortieError */
  async renew(refused: Session): Promise<void> {
    if (this.#session !== refused) return;
    if (this.#opening === undefined) this.#config = this.#config.reload();
    await this.#open(refused);
  }

  close(): void {
    this.#isClosed = true;
    this.#session?.transport.close();
  }

  /** One new session for all that wait for one. @throws TortieError */
  #open(former: Session | undefined): Promise<Session> {
    this.#opening ??= openSession(this.#config, former)
      .then((session) => {
        this.#session = session;
        this.#keepSecret(session);
        if (this.#isClosed) session.transport.close();
        return session;
      })
      .finally(() => {
        this.#opening = undefined;
      });
    return this.#opening;
  }

  #keepSecret({ config, headers, certificate }: Session): void {
    for (const [name, value] of headers) if (name === "Authorization") this.secrets.addAuthorization(value);
    this.secrets.addKey(certificate?.key);
    this.secrets.addPasswordOf(config.proxy);
  }
}

function isExpired({ expiresAt }: Session): boolean {
  return expiresAt !== undefined && expiresAt <= Date.now();
}

declare const TORTIE_VERSION: string | undefined;

/** How API servers know us in their logs. The build puts the version in (scripts/build). */
const USER_AGENT = `tortie/${typeof TORTIE_VERSION === "string" ? TORTIE_VERSION : "0.0.0-source"}`;

export interface Session {
  readonly config: ApiConfig;
  readonly transport: Transport;
  readonly headers: readonly (readonly [string, string])[];
  /** Milliseconds since 1970 after which the credentials count no more; `undefined` when they do not say. */
  readonly expiresAt: number | undefined;
  readonly certificate: ClientCertificate | undefined;
}

/**
 * Finds out who we are on a connection: our certificate, and the headers that every request carries. Runs the credential plugin if there
 * is one. A former session's connection is kept where the new one would be made alike.
 *
 * @throws TortieError `credentials-failed`
 */
async function openSession(config: ApiConfig, former: Session | undefined): Promise<Session> {
  const { identity } = config;
  let { certificate, authorization } = identity;
  let expiresAt: number | undefined;
  if (identity.plugin !== undefined) {
    const { runCredentialPlugin } = await import("./credential-plugin.ts");
    const credentials = await runCredentialPlugin(identity.plugin, identity.description);
    certificate = credentials.certificate ?? certificate;
    authorization = credentials.authorization ?? authorization;
    expiresAt = credentials.expiresAt;
  }
  const headers: (readonly [string, string])[] = [
    ["User-Agent", USER_AGENT],
    ["Accept", "application/json"],
  ];
  if (authorization !== undefined) headers.push(["Authorization", authorization]);
  headers.push(...identity.headers);
  const isAlike = former !== undefined && fingerprint(former.config, former.certificate) === fingerprint(config, certificate);
  if (isAlike) return { config, transport: former.transport, headers, expiresAt, certificate };

  former?.transport.close();
  return { config, transport: new Transport(config, certificate), headers, expiresAt, certificate };
}

/** A call as it goes out in a session. @param isRepeatable doing twice what it asks does no harm */
export function wireRequest(
  { method, path, body, contentType = "application/json" }: ApiCall,
  { config, headers }: Session,
  isRepeatable: boolean,
): WireRequest {
  return {
    method,
    target: config.server.basePath + path,
    headers: body === undefined ? headers : [...headers, ["Content-Type", contentType]],
    body,
    isRepeatable,
  };
}

function fingerprint({ server, trust, proxy }: ApiConfig, certificate: ClientCertificate | undefined): string {
  return JSON.stringify([server, trust, proxy, certificate]);
}
