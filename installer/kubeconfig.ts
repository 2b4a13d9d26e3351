/** Makes the plugins' kubeconfig: the text of the file, and the token in it (C§9.5). */

import { join } from "node:path";
import type { Environment } from "../lib/cni/protocol.ts";
import { decodeNetworkConfig } from "../lib/config/decode.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { isNumber, optional, parseObject, section, text } from "../lib/json/decode.ts";
import { type ApiClient, ApiError } from "../lib/kubernetes/api-client.ts";
import { createApiClient } from "../lib/kubernetes/client/client.ts";
import type { ApiConfig } from "../lib/kubernetes/config/api-config.ts";
import { readInCluster, resolveApiConfig } from "../lib/kubernetes/config/resolve.ts";
import { isThere, readText } from "../lib/system/files.ts";
import type { InstallSettings } from "./settings.ts";

/** Counts the seconds that a token is asked for (C§9.5). */
const TOKEN_SECONDS = 86_400;

export interface Token {
  readonly token: string;
  /** Milliseconds since 1970. */
  readonly expiresMs: number;
}

/**
 * Asks for a token of the plugins' service account by TokenRequest; takes the pod's own where the server cannot do that. It is bound to
 * this host's Node object, so that it names the node and ends with it, unless the node's name is not given or the server cannot do it.
 *
 * @throws TortieError `install-token`
 */
export async function requestToken(settings: InstallSettings, log: (line: string) => void): Promise<Token> {
  const { serviceAccount, token } = settings;
  const namespace = readNamed(join(serviceAccount, "namespace")).trim();
  const account = `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(token.account)}`;
  using client = createApiClient(apiConfigOf(settings));
  const node = settings.env.KUBERNETES_NODE_NAME;
  try {
    const bound = node ? await tokenOfNode(client, account, node, log) : undefined;
    return bound ?? (await createToken(client, account));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404 && !(await hasTokenRequests(client))) return ownToken(serviceAccount);
    throw new TortieError("install-token", `no token for service account ${namespace}/${token.account}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Statuses of a server that does not bind tokens to Nodes (Kubernetes before 1.31), or has no Node of that name. */
const CANNOT_BIND: ReadonlySet<number> = new Set([400, 404, 422]);

/** @returns `undefined` where the server cannot bind tokens to the node @throws ApiError for every other refusal */
async function tokenOfNode(client: ApiClient, account: string, node: string, log: (line: string) => void): Promise<Token | undefined> {
  try {
    return await createToken(client, account, { kind: "Node", apiVersion: "v1", name: node });
  } catch (error) {
    if (!(error instanceof ApiError) || !CANNOT_BIND.has(error.status)) throw error;
    log(`warning: the plugins' token is not bound to node ${node} and works from any other too: ${messageOf(error)}`);
    return undefined;
  }
}

/** @param boundObjectRef what the token ends with (authentication.k8s.io/v1, BoundObjectReference) @throws ApiError; TransportError */
async function createToken(client: ApiClient, account: string, boundObjectRef?: Readonly<Record<string, string>>): Promise<Token> {
  const spec = { expirationSeconds: TOKEN_SECONDS, boundObjectRef };
  const body = JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec });
  const status = section(parseObject(await client.request({ method: "POST", path: `${account}/token`, body })), "status");
  return { token: text(status, "token"), expiresMs: Date.parse(text(status, "expirationTimestamp")) };
}

function apiConfigOf(settings: InstallSettings): ApiConfig {
  const { token, env, serviceAccount } = settings;
  if (token.kubeconfig !== undefined) {
    return resolveApiConfig(decodeNetworkConfig({ kubernetes: { kubeconfig: token.kubeconfig } }), env);
  }
  const inCluster = readInCluster(env, serviceAccount);
  if (inCluster === undefined) {
    throw new TortieError("install-token", "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, and KUBECONFIG names no file");
  }
  return { ...inCluster, proxy: undefined, qps: 0, burst: 0, reload: () => apiConfigOf(settings) };
}

async function hasTokenRequests(client: ApiClient): Promise<boolean> {
  const resources = await client.request({ method: "GET", path: "/api/v1" });
  return resources.includes('"serviceaccounts/token"');
}

/** @throws TortieError `install-token` when the token says no end */
function ownToken(serviceAccount: string): Token {
  const token = readNamed(join(serviceAccount, "token")).trim();
  const expiresMs = endOf(token);
  if (expiresMs === undefined) throw new TortieError("install-token", `the token in ${serviceAccount} has no numeric "exp"`);
  return { token, expiresMs };
}

/** Tells when a token ends, in milliseconds since 1970; `undefined` for one that does not say it (RFC 7519, 4.1.4). @throws Error for no JWT */
export function endOf(token: string): number | undefined {
  const [, payload = ""] = token.split(".");
  const { exp } = optional(parseObject(Buffer.from(payload, "base64url").toString()), "exp", isNumber);
  return exp && exp * 1000;
}

/** Tells whether the first token of a kubeconfig's text has ended. What cannot be read counts as good. */
export function hasEndedToken(text: string, nowMs: number): boolean {
  try {
    const token = /^\s*token:\s*["']?([^\s"']+)/m.exec(text)?.[1];
    const end = token === undefined ? undefined : endOf(token);
    return end !== undefined && end <= nowMs;
  } catch {
    return false;
  }
}

/** Calico's installer begins its file with other words. */
const FIRST_LINE = "# Kubeconfig of the CNI plugins. Written by the installer, which replaces it when its token is renewed.";

export function isOwnKubeconfig(text: string): boolean {
  return text.startsWith(FIRST_LINE);
}

export function kubeconfigPath({ netDir, kubeconfigName }: Pick<InstallSettings, "netDir" | "kubeconfigName">): string {
  return join(netDir, kubeconfigName);
}

/** Writes the file's text: authority or skip-verify, never both. */
export function kubeconfigText(settings: Pick<InstallSettings, "serviceAccount" | "token">, token: string): string {
  const { server, skipVerify } = settings.token;
  const trust = skipVerify
    ? "insecure-skip-tls-verify: true"
    : `certificate-authority-data: ${Buffer.from(readNamed(join(settings.serviceAccount, "ca.crt"))).toString("base64")}`;
  return `${FIRST_LINE}
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: ${server}
    ${trust}
users:
- name: calico
  user:
    token: ${token}
contexts:
- name: calico-context
  context:
    cluster: local
    user: calico
current-context: calico-context
`;
}

/** Tells whether this process runs in a pod, which is when there is a kubeconfig to write (C§9.3, step 3). */
export function isInPod({ serviceAccount }: Pick<InstallSettings, "serviceAccount">): boolean {
  return isThere(join(serviceAccount, "token"));
}

/** @throws TortieError `install-token` */
export function assertInCluster(env: Environment): void {
  if (env.KUBERNETES_SERVICE_HOST && env.KUBERNETES_SERVICE_PORT) return;
  throw new TortieError("install-token", "there is a service account, but KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set");
}

function readNamed(path: string): string {
  try {
    return readText(path);
  } catch (error) {
    throw new TortieError("install-token", `the service account cannot be read: ${messageOf(error)}`);
  }
}
