/** Decides whether a server is reached through an HTTP proxy, as Go's net/http decides it from the environment. */

import { contains, isSameAddress, parseAddress, parsePrefix } from "../../addresses/address.ts";
import type { Environment } from "../../cni/protocol.ts";
import { TortieError } from "../../errors/errors.ts";
import type { ApiServer } from "./api-config.ts";

type Destination = Pick<ApiServer, "hostname" | "port" | "isTls">;

/** Tells `fetch` which proxy to use, or that there is no proxy: without this it would read the environment, by rules of its own. */
export function proxyOption(proxy: string | undefined): Bun.FetchProxyOption {
  return proxy === undefined ? false : { url: proxy, respectNoProxy: false };
}

/**
 * Finds `proxy-url` of the kubeconfig's cluster, else HTTPS_PROXY or HTTP_PROXY by the server's scheme, unless NO_PROXY names the server.
 * This machine itself is never reached through a proxy of the environment.
 *
 * @param configured `proxy-url`, which NO_PROXY does not concern
 * @throws TortieError `kubeconfig-invalid` for a proxy that is not an http or https URL
 */
export function proxyFor(server: Destination, env: Environment, configured: string | undefined, place: string): string | undefined {
  if (configured !== undefined) return checkProxy(configured, place);
  const variable = server.isTls ? "HTTPS_PROXY" : "HTTP_PROXY";
  const proxy = env[variable] || env[variable.toLowerCase()];
  if (!proxy || isLocal(server.hostname) || isExcluded(server, env.NO_PROXY || env.no_proxy || "")) return undefined;
  return checkProxy(proxy.includes("://") ? proxy : `http://${proxy}`, `environment variable ${variable}`);
}

/** The URL may hold a password and does not appear in the message. */
function checkProxy(text: string, place: string): string {
  const url = URL.parse(text);
  if (url === null || url.hostname === "" || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new TortieError("kubeconfig-invalid", `${place} is not the URL of an http or https proxy`);
  }
  return text;
}

function isLocal(hostname: string): boolean {
  if (hostname === "localhost") return true;
  const address = parseAddress(hostname);
  if (address === undefined) return false;
  return address.family === 4 ? address.value >> 24n === 127n : address.value === 1n;
}

/** Reads NO_PROXY: "*", addresses, CIDRs, and domains that include what is below them; each but a CIDR may end with ":port". */
function isExcluded(server: Destination, list: string): boolean {
  const hostname = server.hostname.toLowerCase();
  const address = parseAddress(hostname);
  for (const item of list.split(",")) {
    const entry = item.trim().toLowerCase();
    if (entry === "") continue;
    if (entry === "*") return true;
    const prefix = parsePrefix(entry);
    if (prefix !== undefined) {
      if (address !== undefined && contains(prefix, address)) return true;
      continue;
    }
    const { host, port } = splitPort(entry);
    if (port !== undefined && port !== String(server.port)) continue;
    const excluded = parseAddress(host);
    if (excluded !== undefined) {
      if (isSameAddress(excluded, address)) return true;
      continue;
    }
    const domain = host.startsWith("*.") ? host.slice(1) : host;
    if (domain.startsWith(".") ? hostname.endsWith(domain) : hostname === domain || hostname.endsWith(`.${domain}`)) return true;
  }
  return false;
}

function splitPort(entry: string): { readonly host: string; readonly port: string | undefined } {
  if (parseAddress(entry) !== undefined) return { host: entry, port: undefined };
  const colon = entry.lastIndexOf(":");
  const host = colon < 0 ? entry : entry.slice(0, colon);
  return {
    host: host.startsWith("[") && host.endsWith("]") ? host.slice(1, -1) : host,
    port: colon < 0 ? undefined : entry.slice(colon + 1),
  };
}
