/** Why there is no connection, in words that people search for. */
import { messageOf } from "../../errors/errors.ts";
import { systemErrorCode } from "../../system/errno.ts";
import type { TransportFailure } from "./transport.ts";

/** OpenSSL's words for a chain that ends at nobody we trust. */
const UNKNOWN_AUTHORITY: readonly string[] = [
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
];

/** What `Bun.connect` was rejected with. It says ECONNREFUSED for a host without a route, too. */
export function connectFailure(
  error: unknown,
  hostname: string,
  port: number,
): { readonly failure: TransportFailure; readonly message: string } {
  const code = systemErrorCode(error) ?? "";
  const where = `${hostname} port ${port}`;
  if (code === "ECONNREFUSED") {
    return { failure: "not-connected", message: `dial tcp ${where}: connect: connection refused, or no way to this host` };
  }
  if (code === "ERR_BORINGSSL" || code.startsWith("ERR_OSSL") || code.startsWith("ERR_SSL")) {
    return { failure: "untrusted", message: `tls: a certificate or key of the configuration is unusable: ${messageOf(error)}` };
  }
  if (code.startsWith("EAI_") || code.startsWith("ENOT") || code.startsWith("DNS_")) {
    return { failure: "not-connected", message: `dial tcp: lookup ${hostname}: no such host, or the name servers do not answer (${code})` };
  }
  return { failure: "not-connected", message: `dial tcp ${where}: ${messageOf(error)}` };
}

/** Whether the handshake failed by our judgement of the server's certificate, which the next try would repeat. */
export function isServerRefused(error: unknown): boolean {
  const code = systemErrorCode(error) ?? "";
  return code !== "" && code !== "ECONNRESET" && code !== "EPIPE" && code !== "ECONNABORTED";
}

export function handshakeFailure(error: unknown, serverName: string): string {
  const code = systemErrorCode(error) ?? "";
  const prefix = "tls: failed to verify certificate:";
  if (UNKNOWN_AUTHORITY.includes(code)) return `${prefix} certificate signed by unknown authority (${messageOf(error)})`;
  if (code === "CERT_HAS_EXPIRED") return `${prefix} certificate has expired`;
  if (code === "CERT_NOT_YET_VALID") return `${prefix} certificate is not valid yet; is this machine's clock right?`;
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return `${prefix} certificate is not valid for ${serverName} (${messageOf(error)})`;
  return `${prefix} ${messageOf(error)} (${code})`;
}
