/**
 * Says what an answer means: an ApiError of a Status object (k8s.io/apimachinery, meta/v1 Status) or of anything else, and whether it is
 * about what was asked for.
 */
import { isObject, parsedObject } from "../../json/decode.ts";
import { ApiError, type ApiErrorCause, type ApiErrorFacts, type ApiRequest } from "../api-client.ts";
import type { WireAnswer } from "./transport.ts";

/** Characters that a message repeats of a page that is not a Status object. */
const EXCERPT = 120;

/** @param what method and URL @param isRepetition and identity: see ApiError */
export function statusError(what: string, answer: WireAnswer, isRepetition: boolean, identity = ""): ApiError {
  const status = parsedObject(answer.body);
  if (status === undefined || status.kind !== "Status") {
    // What no API serves is answered by the server itself, not by an API: in the words of Kubernetes' own clients.
    const said =
      answer.status === 404 ? "the server could not find the requested resource" : `the server answered with status ${answer.status}`;
    const explanation = said + excerptOf(answer);
    return new ApiError(`${what}: ${explanation}`, { status: answer.status, explanation, isRepetition, identity });
  }
  const explanation = textOf(status.message) || `the server answered with status ${answer.status}`;
  const details = isObject(status.details) ? status.details : {};
  const facts: ApiErrorFacts = {
    status: answer.status,
    reason: textOf(status.reason),
    causes: Array.isArray(details.causes) ? details.causes.filter(isObject).map(causeOf) : [],
    explanation,
    isRepetition,
    identity,
  };
  return new ApiError(`${what}: ${explanation}`, facts);
}

/** An answer of 2xx that is not JSON does not come from an API server, but for instance from a login page in between. */
export function foreignAnswerError(what: string, answer: WireAnswer): ApiError {
  const explanation = `the answer has the type ${JSON.stringify(answer.contentType)} instead of JSON${excerptOf(answer)}: this is no Kubernetes API server`;
  return new ApiError(`${what}: ${explanation}`, { explanation });
}

export function isJsonAnswer({ contentType, body }: WireAnswer): boolean {
  return contentType.includes("json") || (contentType === "" && (body.startsWith("{") || body === ""));
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function causeOf(cause: Readonly<Record<string, unknown>>): ApiErrorCause {
  return { reason: textOf(cause.reason), field: textOf(cause.field), message: textOf(cause.message) };
}

/** What refuses to know us may be something in between that repeats what it was asked, credentials included. */
function excerptOf({ status, body }: WireAnswer): string {
  if (status === 401 || status === 403 || status === 407) return body === "" ? "" : " (what else it said is not shown)";
  const text = body.slice(0, EXCERPT).replace(/\s+/g, " ").trim();
  return text === "" ? "" : ` (${text})`;
}

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

/** Guesses as Kubernetes does the resource of a kind (k8s.io/apimachinery, meta.UnsafeGuessKindToResource). */
function pluralOf(kind: string): string {
  const singular = kind.toLowerCase();
  if (singular.endsWith("s")) return `${singular}es`;
  return singular.endsWith("y") ? `${singular.slice(0, -1)}ies` : `${singular}s`;
}
