/** Says where an API server is and who we are to it: what `resolveApiConfig` finds out, and all that the client has to know. */
import { TortieError } from "../../errors/errors.ts";

export interface ApiConfig {
  readonly server: ApiServer;
  readonly trust: ServerTrust;
  readonly identity: Identity;
  /** URL of an HTTP proxy; `undefined` when the server is reached directly. */
  readonly proxy: string | undefined;
  /** Requests a second, on average; 0 and below means no limit. */
  readonly qps: number;
  /** Requests that may be made at once before `qps` counts. */
  readonly burst: number;
  /**
   * Reads everything once more from where it came from: tokens and certificates are replaced while programs run.
   *
   * @throws TortieError as `resolveApiConfig` does
   */
  reload(): ApiConfig;
}

export interface ApiServer {
  /** Scheme, host and port for messages, and the path below which the API lies: "https://10.96.0.1:443". No slash at the end. */
  readonly url: string;
  /** A name or an address, an IPv6 one without brackets. */
  readonly hostname: string;
  readonly port: number;
  readonly isTls: boolean;
  /** Of the Host header. */
  readonly authority: string;
  /** Path of the server's root, without a slash at its end; mostly empty. */
  readonly basePath: string;
}

/** How the server proves that it is the right one. */
export interface ServerTrust {
  /** Certificates of authorities, PEM; `undefined` means those the system trusts. */
  readonly certificateAuthority: string | undefined;
  /** Name that the certificate must have, and that is asked for; `undefined` means the host of the URL. */
  readonly serverName: string | undefined;
  readonly skipVerify: boolean;
}

/** How we prove who we are. Nothing of it but `description` may appear in a message. */
export interface Identity {
  /** For messages: `user "calico" of /etc/cni/net.d/calico-kubeconfig`. */
  readonly description: string;
  /** PEM texts of certificate (chain) and key. */
  readonly certificate: ClientCertificate | undefined;
  /** Value of the Authorization header. */
  readonly authorization: string | undefined;
  /** Further headers, for instance of impersonation: names and values. */
  readonly headers: readonly (readonly [string, string])[];
  /** A program that hands out credentials; it is run at the first request. */
  readonly plugin: CredentialPlugin | undefined;
}

export interface ClientCertificate {
  readonly certificate: string;
  readonly key: string;
}

/** The `exec` section of a kubeconfig's user (client.authentication.k8s.io). */
export interface CredentialPlugin {
  readonly apiVersion: string;
  /** A path, or a name to be looked up in PATH. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly needsTerminal: boolean;
  readonly installHint: string;
  /** The `spec.cluster` member of KUBERNETES_EXEC_INFO; `undefined` when the plugin does not want it. */
  readonly cluster: Readonly<Record<string, unknown>> | undefined;
}

/**
 * @param text "https://10.96.0.1:443", with a path where the API lies below one; without a scheme https is meant, so that no token goes out
 * in the clear
 * @param place where it was given, for the message
 * @throws TortieError `kubeconfig-invalid`
 */
export function parseServer(text: string, place: string): ApiServer {
  const url = URL.parse(text.includes("://") ? text : `https://${text}`);
  if (url === null || url.hostname === "" || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw new TortieError("kubeconfig-invalid", `${place} is ${JSON.stringify(text)}, which is not the http or https URL of an API server`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new TortieError("kubeconfig-invalid", `${place} holds a user name or a password, which belong to the user of the kubeconfig`);
  }
  const isTls = url.protocol === "https:";
  const port = url.port === "" ? (isTls ? 443 : 80) : Number(url.port);
  const basePath = withoutSlashes(url.pathname);
  return {
    url: `${url.protocol}//${url.hostname}:${port}${basePath}`,
    hostname: url.hostname.startsWith("[") ? url.hostname.slice(1, -1) : url.hostname,
    port,
    isTls,
    authority: url.host,
    basePath,
  };
}

/** `k8s_api_root` may be any URL of the API; what begins with "/api/" is cut off (C§1.2). */
export function cutApiPath(text: string): string {
  const api = text.indexOf("/api/");
  return api < 0 ? text : text.slice(0, api);
}

function withoutSlashes(path: string): string {
  let end = path.length;
  while (end > 0 && path[end - 1] === "/") end--;
  return path.slice(0, end);
}
