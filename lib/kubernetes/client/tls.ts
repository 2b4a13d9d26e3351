/** Makes TLS connections to an API server, and judges its certificate. */

import { isSameAddress, parseAddress } from "../../addresses/address.ts";
import { messageOf } from "../../errors/errors.ts";
import type { ClientCertificate, ServerTrust } from "../config/api-config.ts";

/** PEM texts and how the server is judged, in the words of `fetch`. */
export interface TlsMaterial {
  readonly rejectUnauthorized: boolean;
  readonly serverName?: string;
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly checkServerIdentity?: (name: string, certificate: { readonly subjectaltname?: string }) => Error | undefined;
}

/** @param onHandshake called for each connection whose chain of certificates is good, before anything is sent over it */
export function tlsMaterial(
  { certificateAuthority, skipVerify, serverName }: ServerTrust,
  certificate: ClientCertificate | undefined,
  onHandshake: () => void,
): TlsMaterial {
  return {
    rejectUnauthorized: !skipVerify,
    ...(serverName === undefined ? {} : { serverName }),
    ...(certificateAuthority === undefined ? {} : { ca: certificateAuthority }),
    ...(certificate === undefined ? {} : { cert: certificate.certificate, key: certificate.key }),
    ...(skipVerify
      ? {}
      : {
          checkServerIdentity: (name, { subjectaltname }) => {
            if (!isNamed(name, subjectaltname ?? "")) return new ServerNameError(subjectaltname);
            onHandshake();
            return undefined;
          },
        }),
  };
}

class ServerNameError extends Error {
  readonly code = "ERR_TLS_CERT_ALTNAME_INVALID";

  constructor(names: string | undefined) {
    super(names ? `it is for ${names}` : "it has no subject alternative name");
  }
}

/** Says why no TLS context can be made of the material; `undefined` when one can. */
export async function whatIsUnusable({ ca, cert, key }: TlsMaterial): Promise<string | undefined> {
  const { createSecureContext } = await import("node:tls");
  try {
    createSecureContext({ ca, cert, key });
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** @param names as the runtime writes them: `DNS:a.example, IP Address:10.0.0.1`; a value with a comma or a quote in it is in quotes */
export function isNamed(wanted: string, names: string): boolean {
  const address = parseAddress(wanted);
  return names.split(", ").some((entry) => {
    const colon = entry.indexOf(":");
    const [kind, value] = [entry.slice(0, colon), entry.slice(colon + 1)];
    if (address === undefined) return kind === "DNS" && matchesHost(wanted.toLowerCase(), value.toLowerCase());
    const listed = kind === "IP Address" ? parseAddress(value.toLowerCase()) : undefined;
    return isSameAddress(listed, address);
  });
}

/** A "*" stands for the whole first label, and for no more than it. */
function matchesHost(host: string, pattern: string): boolean {
  const name = host.endsWith(".") ? host.slice(0, -1) : host;
  if (!pattern.startsWith("*.")) return pattern === name && name !== "";
  const dot = name.indexOf(".");
  return dot > 0 && name.slice(dot) === pattern.slice(1) && pattern.indexOf(".", 2) > 0;
}
