/** Who we are on a connection: a transport with our certificate, and the headers that every request carries. */
import type { ApiConfig, ClientCertificate } from "../config/api-config.ts";
import { Transport } from "./transport.ts";

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
 * Runs the credential plugin if there is one. A former session's connection is kept where the new one would be made alike.
 *
 * @throws TortieError `credentials-failed`
 */
export async function openSession(config: ApiConfig, former: Session | undefined): Promise<Session> {
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

function fingerprint({ server, trust, proxy }: ApiConfig, certificate: ClientCertificate | undefined): string {
  return JSON.stringify([server, trust, proxy, certificate]);
}
