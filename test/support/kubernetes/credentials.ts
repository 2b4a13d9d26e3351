/** The cluster's own certificate authority, the certificates it signs, and kubeconfig files that use them. All made by openssl. */
import { execFileSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SERVER_NAMES = "IP:127.0.0.1,IP:::1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc";

/**
 * Writes into `dir`: ca.crt and ca.key, server.crt (also the fault proxy's), admin.crt (group system:masters), each with its key, and
 * sa.key, which signs service account tokens. EC keys, because they are made in no time.
 */
export function makeCertificates(dir: string): void {
  makeKey(dir, "sa");
  const key = makeKey(dir, "ca");
  openssl("req", "-x509", "-new", "-key", key, "-subj", "/CN=test-ca", "-days", "30", "-out", join(dir, "ca.crt"));
  makeCertificate(dir, "server", 2, "/CN=kube-apiserver", SERVER_NAMES);
  makeCertificate(dir, "admin", 3, "/O=system:masters/CN=admin", "DNS:admin");
}

/** A certificate `name`.crt with its key, by which the server takes its owner for the user of that name. */
export function makeUserCertificate(dir: string, name: string, user: string): void {
  makeCertificate(dir, name, 4, `/CN=${user}`, "DNS:user");
}

function makeCertificate(dir: string, name: string, serial: number, subject: string, alternatives: string): void {
  const request = join(dir, `${name}.csr`);
  const extensions = join(dir, `${name}.ext`);
  writeFileSync(extensions, `subjectAltName=${alternatives}\n`);
  openssl("req", "-new", "-key", makeKey(dir, name), "-subj", subject, "-out", request);
  const ca = ["-CA", join(dir, "ca.crt"), "-CAkey", join(dir, "ca.key"), "-set_serial", String(serial)];
  openssl("x509", "-req", "-in", request, ...ca, "-days", "30", "-extfile", extensions, "-out", join(dir, `${name}.crt`));
}

function makeKey(dir: string, name: string): string {
  const path = join(dir, `${name}.key`);
  openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path);
  return path;
}

/** How a kubeconfig's user proves who it is. */
export type Credential = { readonly token: string } | { readonly certificate: string; readonly key: string };

/** A kubeconfig in the form that Calico's installer writes (C§9.5), as a file of mode 0600. */
export function writeKubeconfig(path: string, server: string, caPath: string, credential: Credential): void {
  const user =
    "token" in credential ? { token: credential.token } : { "client-certificate": credential.certificate, "client-key": credential.key };
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "local", cluster: { server, "certificate-authority-data": readFileSync(caPath).toString("base64") } }],
    users: [{ name: "calico", user }],
    contexts: [{ name: "calico-context", context: { cluster: "local", user: "calico" } }],
    "current-context": "calico-context",
  };
  // JSON is YAML.
  writeFileSync(path, `${JSON.stringify(config, null, 2)}\n`);
  chmodSync(path, 0o600);
}

function openssl(...args: string[]): void {
  execFileSync("openssl", args, { stdio: ["ignore", "ignore", "pipe"] });
}
