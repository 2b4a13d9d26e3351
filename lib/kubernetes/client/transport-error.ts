/** Says how one try of a request can fail on its way, and in which words that people search for. */
import { messageOf } from "../../errors/errors.ts";
import { systemErrorCode } from "../../system/errno.ts";
import type { ApiFault } from "../api-client.ts";

/**
 * - `not-connected`: there is no connection to a server that answers, and nothing was done
 * - `untrusted`: the server could not prove who it is, or our own certificate is unusable; repeating is no use
 * - `broken`: the connection ended before the answer did
 * - `timeout`: the limit of this try was over
 * - `not-understood`: what came back is no HTTP answer, or is larger than anything we asked for
 */
export type TransportFailure = "not-connected" | "untrusted" | "broken" | "timeout" | "not-understood";

/** `message` says what happened, without method and URL. */
export class TransportError extends Error {
  readonly failure: TransportFailure;
  /** Whether the server may have got the request. */
  readonly wasSent: boolean;

  constructor(failure: TransportFailure, message: string, options: { wasSent?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "TransportError";
    this.failure = failure;
    this.wasSent = options.wasSent ?? false;
  }

  get fault(): ApiFault | undefined {
    if (this.failure === "untrusted") return "untrusted";
    return this.failure === "not-understood" ? "foreign" : undefined;
  }
}

/** Gives the answer, or the TransportError instead of one. @throws whatever else `ask` throws */
export async function transportErrorOr<R>(ask: () => Promise<R>): Promise<R | TransportError> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof TransportError) return error;
    throw error;
  }
}

/** Tells whether files on this host may be older than what the server shows or wants: it refuses a client's certificate by an alert of TLS. */
export function isTrustFailure({ failure, cause }: TransportError): boolean {
  return failure === "untrusted" || (failure === "not-connected" && systemErrorCode(cause) === "EPROTO");
}

/** What is known of a try besides the error that `fetch` gave up with. */
export interface TryFacts {
  /** "10.96.0.1 port 443", or "10.96.0.1 port 443 through proxy 192.0.2.1:3128". */
  readonly destination: string;
  /** The name that the certificate must have. */
  readonly serverName: string;
  readonly wasSent: boolean;
}

/** Explains what `fetch` was rejected with. Its codes are errno names, OpenSSL's names, and words in camel case of its own parser. */
export function failureOf(error: unknown, facts: TryFacts): TransportError {
  const code = systemErrorCode(error) ?? "";
  const { destination, wasSent } = facts;
  const fail = (failure: TransportFailure, message: string) => new TransportError(failure, message, { wasSent, cause: error });

  if (code === "ECONNREFUSED") return fail("not-connected", `dial tcp ${destination}: connect: connection refused, or no way to this host`);
  if (/^(ENOTFOUND|ENODATA|EAI_|DNS_)/.test(code)) {
    return fail("not-connected", `dial tcp: lookup ${destination}: no such host, or the name servers do not answer (${code})`);
  }
  if (code === "EPROTO" && !wasSent)
    return fail("not-connected", `the TLS handshake with ${destination} was not completed: does it speak TLS, and take our certificate?`);
  if (CONNECTION_ENDED.includes(code)) {
    // A load balancer without servers takes connections too, and ends them at once.
    return wasSent
      ? fail("broken", `the server ended the connection before it answered in full (${destination}, ${code})`)
      : fail("not-connected", `the server ended the connection before it answered anything (${destination}, ${code})`);
  }
  if (/^(EHOST|ENET|EADDR|EMFILE|ENFILE|FailedToOpenSocket)/.test(code))
    return fail("not-connected", `dial tcp ${destination}: ${messageOf(error)}`);
  if (/^[A-Z][A-Z0-9_]+$/.test(code))
    return new TransportError("untrusted", `${certificateRefusal(code, error, facts.serverName)} (${destination})`, { cause: error });
  return fail("not-understood", `the answer is not understood: ${messageOf(error)}`);
}

const CONNECTION_ENDED: readonly string[] = ["ECONNRESET", "EPIPE", "ECONNABORTED", "ETIMEDOUT", "EPROTO", "ConnectionClosed"];

/** OpenSSL's words for a chain that ends at no trusted authority. */
const UNKNOWN_AUTHORITY: readonly string[] = [
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
];

function certificateRefusal(code: string, error: unknown, serverName: string): string {
  const prefix = "tls: failed to verify certificate:";
  if (UNKNOWN_AUTHORITY.includes(code)) return `${prefix} certificate signed by unknown authority (${messageOf(error)})`;
  if (code === "CERT_HAS_EXPIRED") return `${prefix} certificate has expired`;
  if (code === "CERT_NOT_YET_VALID") return `${prefix} certificate is not valid yet; is this machine's clock right?`;
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return `${prefix} certificate is not valid for ${serverName} (${messageOf(error)})`;
  return `${prefix} ${messageOf(error)} (${code})`;
}
