/**
 * Whether an answer is about what was asked for. Something in between that mixes answers up would otherwise give one pod the
 * annotations, the uid and the addresses of another. The path of a request names the object.
 */
import { isObject } from "../../json/decode.ts";
import type { ApiRequest } from "../api-client.ts";
import { parsedObject } from "./status-error.ts";

interface Asked {
  /** "v1", "crd.projectcalico.org/v1". */
  readonly apiVersion: string;
  readonly plural: string;
  /** Empty for a list, and for an object that is to be made. */
  readonly name: string;
  readonly namespace: string;
}

/** @param text of an answer with a status of 2xx */
export function isAbout(request: ApiRequest, text: string): boolean {
  const asked = askedBy(request);
  if (asked === undefined) return true;
  const object = parsedObject(text);
  // The decoder of the answer reports that it is no object.
  if (object === undefined) return true;
  const { apiVersion, kind, metadata } = object;
  if (apiVersion !== asked.apiVersion || typeof kind !== "string") return false;
  if (request.method === "GET" && asked.name === "")
    return kind.endsWith("List") && pluralOf(kind.slice(0, -"List".length)) === asked.plural;
  if (pluralOf(kind) !== asked.plural) return false;
  const { name, namespace } = isObject(metadata) ? metadata : {};
  return (asked.name === "" || name === asked.name) && (asked.namespace === "" || namespace === asked.namespace);
}

/** `/api/v1/namespaces/NS/pods/NAME/status`, `/apis/GROUP/VERSION/PLURAL?limit=500`. What a DELETE answers is often no object. */
function askedBy({ method, path }: ApiRequest): Asked | undefined {
  if (method === "DELETE") return undefined;
  const [found, group, version, namespace = "", plural, name = ""] =
    /^\/api(?:s\/([^/?]+))?\/(v[^/?]+)(?:\/namespaces\/([^/?]+)(?=\/))?\/([^/?]+)(?:\/([^/?]+))?(?:\/status)?(?:\?.*)?$/.exec(path) ?? [];
  if (found === undefined || version === undefined || plural === undefined) return undefined;
  return { apiVersion: group === undefined ? version : `${group}/${version}`, plural, name, namespace };
}

/** As Kubernetes guesses the resource of a kind (k8s.io/apimachinery, meta.UnsafeGuessKindToResource). */
function pluralOf(kind: string): string {
  const singular = kind.toLowerCase();
  if (singular.endsWith("s")) return `${singular}es`;
  return singular.endsWith("y") ? `${singular.slice(0, -1)}ies` : `${singular}s`;
}
