/** The address of an API server as people write it. */
import { TortieError } from "../../errors/errors.ts";
import type { ApiServer } from "./api-config.ts";

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
