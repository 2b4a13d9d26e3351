/**
 * Finds the API server and who we are there, from the network configuration and the environment (C§1.2 to C§1.4, I§1.3).
 *
 * Calico has two clients, and `policy.*` concerns only its plain one. Tortie has one client, so they concern all it does: where one of
 * them is given it takes the place of what the kubeconfig says. A token or a certificate given like that replaces the kubeconfig's user
 * as a whole: a client is one user.
 */
import type { Environment } from "../../cni/protocol.ts";
import type { NetworkConfig } from "../../config/decode.ts";
import { TortieError } from "../../errors/errors.ts";
import { isThere } from "../../system/files.ts";
import { type ApiConfig, type ApiServer, cutApiPath, type Identity, parseServer, type ServerTrust } from "./api-config.ts";
import { readKubeconfig, type Selection } from "./kubeconfig.ts";
import { proxyFor } from "./proxy.ts";
import { bearer, booleanSetting, checkPem, numberSetting, type PemKind, readNamedFile, type Setting, settingOf } from "./settings.ts";
import { identityOf, pemOf } from "./user.ts";

/** Defaults of Calico's client (C§1.4). */
const DEFAULT_QPS = 5;
const DEFAULT_BURST = 100;

export type KubernetesSettings = Pick<NetworkConfig, "kubernetes" | "policy" | "qps" | "burst">;

const ANONYMOUS: Identity = {
  description: "nobody (no credentials are configured)",
  certificate: undefined,
  authorization: undefined,
  headers: [],
  plugin: undefined,
};

/**
 * Reads every file that is named; nothing is asked of the network, and no credential plugin is run.
 *
 * @throws TortieError `kubeconfig-unreadable`, `kubeconfig-invalid`, `kubeconfig-missing`, `netconf-value`
 */
export function resolveApiConfig(config: KubernetesSettings, env: Environment): ApiConfig {
  const found = locate(config, env);
  const trust = trustOf(config, env, found.trust);
  const { server } = found;
  return {
    server,
    trust: server.isTls ? withSystemAuthorities(trust, env) : trust,
    identity: overriddenIdentity(config, env) ?? found.identity(trust),
    proxy: proxyFor(server, env, found.proxyUrl?.value, found.proxyUrl?.source ?? ""),
    qps: numberSetting(env, "K8S_CLIENT_QPS", config.qps, DEFAULT_QPS),
    burst: numberSetting(env, "K8S_CLIENT_BURST", config.burst, DEFAULT_BURST),
    reload: () => resolveApiConfig(config, env),
  };
}

interface Found {
  readonly server: ApiServer;
  readonly trust: ServerTrust;
  readonly identity: (trust: ServerTrust) => Identity;
  readonly proxyUrl: Setting | undefined;
}

/** Finds a kubeconfig, an address alone, `$HOME/.kube/config`, or the pod we are in: the first that there is. */
function locate(config: KubernetesSettings, env: Environment): Found {
  const endpoint = endpointOf(config, env);
  const kubeconfig = settingOf(env, "KUBECONFIG", config.kubernetes.kubeconfig, "kubernetes.kubeconfig");
  const context = settingOf(env, "K8S_CURRENT_CONTEXT")?.value;
  if (kubeconfig !== undefined) return fromKubeconfig(readKubeconfig(kubeconfig.value, context), endpoint);
  if (endpoint !== undefined) return { server: endpoint, trust: NO_TRUST, identity: () => ANONYMOUS, proxyUrl: undefined };

  const own = env.HOME ? `${env.HOME}/.kube/config` : undefined;
  if (own !== undefined && isThere(own)) return fromKubeconfig(readKubeconfig(own, context), undefined);
  const inCluster = readInCluster(env);
  if (inCluster !== undefined) return { ...inCluster, identity: () => inCluster.identity, proxyUrl: undefined };
  throw new TortieError(
    "kubeconfig-missing",
    `invalid configuration: no configuration has been provided: neither kubernetes.kubeconfig nor an API server is set, ${own ?? "$HOME/.kube/config"} is not there, and this is no pod with a service account`,
  );
}

const NO_TRUST: ServerTrust = { certificateAuthority: undefined, serverName: undefined, skipVerify: false };

function endpointOf({ kubernetes, policy }: KubernetesSettings, env: Environment): ApiServer | undefined {
  const key = kubernetes.k8sApiRoot ? "kubernetes.k8s_api_root" : "policy.k8s_api_root";
  const setting = settingOf(env, "K8S_API_ENDPOINT", kubernetes.k8sApiRoot || policy.k8sApiRoot, key);
  return setting === undefined ? undefined : parseServer(cutApiPath(setting.value), setting.source);
}

function fromKubeconfig({ cluster, user, place }: Selection, endpoint: ApiServer | undefined): Found {
  const fields = cluster?.fields;
  const written = endpoint === undefined ? fields?.text("server") : undefined;
  const server = endpoint ?? (written === undefined || fields === undefined ? undefined : parseServer(written, fields.nameOf("server")));
  if (server === undefined) {
    const missing = fields === undefined ? `cluster of ${place}` : fields.nameOf("server");
    throw new TortieError("kubeconfig-invalid", `${missing} is missing, and no k8s_api_root is set`);
  }
  const trust: ServerTrust = {
    certificateAuthority: cluster === undefined ? undefined : pemOf(cluster, "certificate-authority", "CERTIFICATE"),
    serverName: fields?.text("tls-server-name"),
    skipVerify: fields?.flag("insecure-skip-tls-verify") ?? false,
  };
  if (trust.skipVerify && trust.certificateAuthority !== undefined) {
    throw new TortieError("kubeconfig-invalid", `${fields?.place} has both insecure-skip-tls-verify and a certificate-authority`);
  }
  const proxyUrl = fields?.text("proxy-url");
  const describe = (used: ServerTrust) => ({
    server: server.url,
    "tls-server-name": used.serverName,
    "insecure-skip-tls-verify": used.skipVerify || undefined,
    "certificate-authority-data": used.certificateAuthority === undefined ? undefined : btoa(used.certificateAuthority),
    "proxy-url": proxyUrl,
    config: fields
      ?.children("extensions")
      .find((one) => one.raw("name") === "client.authentication.k8s.io/exec")
      ?.raw("extension"),
  });
  return {
    server,
    trust,
    identity: (used) =>
      user === undefined ? { ...ANONYMOUS, description: `nobody (${place} names no user)` } : identityOf(user, () => describe(used)),
    proxyUrl: proxyUrl === undefined || fields === undefined ? undefined : { value: proxyUrl, source: fields.nameOf("proxy-url") },
  };
}

function trustOf({ policy }: KubernetesSettings, env: Environment, found: ServerTrust): ServerTrust {
  const authority = fileSetting(env, "K8S_CA_FILE", policy.k8sCertificateAuthority, "policy.k8s_certificate_authority", "CERTIFICATE");
  const skipVerify = booleanSetting(env, "K8S_INSECURE_SKIP_TLS_VERIFY");
  // A given authority means that certificates are verified; only the variable itself can switch that off.
  return {
    ...found,
    certificateAuthority: authority ?? found.certificateAuthority,
    skipVerify: skipVerify ?? (authority === undefined && found.skipVerify),
  };
}

function overriddenIdentity({ policy }: KubernetesSettings, env: Environment): Identity | undefined {
  const place = "policy.k8s_auth_token";
  const authorization = policy.k8sAuthToken ? bearer(policy.k8sAuthToken, `key ${place}`) : undefined;
  const certificate = fileSetting(env, "K8S_CERT_FILE", policy.k8sClientCertificate, "policy.k8s_client_certificate", "CERTIFICATE");
  const key = fileSetting(env, "K8S_KEY_FILE", policy.k8sClientKey, "policy.k8s_client_key", "PRIVATE KEY");
  if (certificate === undefined && key === undefined) {
    return authorization === undefined ? undefined : { ...ANONYMOUS, description: `the token in ${place}`, authorization };
  }
  if (certificate === undefined || key === undefined) {
    const missing =
      certificate === undefined ? "policy.k8s_client_certificate (or K8S_CERT_FILE)" : "policy.k8s_client_key (or K8S_KEY_FILE)";
    throw new TortieError("netconf-value", `client certificate and key belong together: ${missing} is not set`);
  }
  return { ...ANONYMOUS, description: "the client certificate of the configuration", certificate: { certificate, key }, authorization };
}

function fileSetting(env: Environment, variable: string, configured: string | undefined, key: string, kind: PemKind): string | undefined {
  const setting = settingOf(env, variable, configured, key);
  if (setting === undefined) return undefined;
  const place = `${setting.source} (${setting.value})`;
  return checkPem(readNamedFile(setting.value, setting.source), kind, place);
}

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

export const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

export type InCluster = Pick<ApiConfig, "server" | "trust" | "identity">;

/**
 * @returns `undefined` outside of a pod
 * @throws TortieError `kubeconfig-unreadable`, `kubeconfig-invalid` when the mounted files are no good
 */
export function readInCluster(env: Environment, folder = SERVICE_ACCOUNT_FOLDER): InCluster | undefined {
  const host = env.KUBERNETES_SERVICE_HOST;
  const port = env.KUBERNETES_SERVICE_PORT;
  const tokenFile = `${folder}/token`;
  if (!host || !port || !isThere(tokenFile)) return undefined;
  const authority = `${folder}/ca.crt`;
  return {
    server: parseServer(
      `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
      "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT",
    ),
    trust: {
      // The API server's own certificate may be one that the system trusts anyway; then there is no such file.
      certificateAuthority: isThere(authority) ? checkPem(readNamedFile(authority, authority), "CERTIFICATE", authority) : undefined,
      serverName: undefined,
      skipVerify: false,
    },
    identity: {
      description: `the service account in ${folder}`,
      certificate: undefined,
      authorization: bearer(readNamedFile(tokenFile, tokenFile), tokenFile),
      headers: [],
      plugin: undefined,
    },
  };
}
