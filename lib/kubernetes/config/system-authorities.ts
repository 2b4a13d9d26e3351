/** The certificates of the authorities that this machine trusts: what counts for a server of which no authority is named. */
import type { Environment } from "../../cni/environment.ts";
import { isThere } from "../../system/files.ts";
import type { ServerTrust } from "./api-config.ts";
import { readNamedFile } from "./material.ts";

/** Where distributions keep them in one file, as Go's crypto/x509 looks for them (root_linux.go). */
const BUNDLES: readonly string[] = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/pki/tls/cacert.pem",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/** Where the machine has no such file, nothing is added, and the runtime's own list counts. @throws TortieError `kubeconfig-unreadable` */
export function withSystemAuthorities(trust: ServerTrust, env: Environment): ServerTrust {
  if (trust.skipVerify || trust.certificateAuthority !== undefined) return trust;
  const path = env.SSL_CERT_FILE ? env.SSL_CERT_FILE : BUNDLES.find(isThere);
  if (path === undefined) return trust;
  return { ...trust, certificateAuthority: readNamedFile(path, "the authorities this machine trusts") };
}
