/** What a TLS connection to an API server is made of, and how its certificate is judged. */
import { messageOf } from "../../errors/errors.ts";
import type { ClientCertificate, ServerTrust } from "../config/api-config.ts";
import { isNamed } from "./server-name.ts";

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

/** Why no TLS context can be made of the material; `undefined` when one can. */
export async function whatIsUnusable({ ca, cert, key }: TlsMaterial): Promise<string | undefined> {
  const { createSecureContext } = await import("node:tls");
  try {
    createSecureContext({ ca, cert, key });
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
