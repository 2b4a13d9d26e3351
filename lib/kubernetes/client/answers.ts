/**
 * Says what an answer means: an ApiError of a Status object (k8s.io/apimachinery, meta/v1 Status) or of anything else, and whether it is
 * about what was asked for.
 */
import { type Fields, isObject, parsedObject } from "../../json/decode.ts";
import { ApiError, type ApiErrorCause, type ApiErrorFacts, type ApiRequest } from "../api-client.ts";
import type { WireAnswer } from "./transport.ts";

/** Characters that a message repeats of a page that is not a Status object. */
const EXCERPT = 120;

/** @param what method and URL @param isRepetition and identity: see ApiError */
export function statusError(what: string, answer: WireAnswer, isRepetition: boolean, identity = ""): ApiError {
  const status = parsedObject(answer.body);
  if (status === undefined || status.kind !== "Status") {
    if (isForeignRefusal(answer)) {
      const words = foreignWords(answer);
      return new ApiError(`${what}: ${words}`, { explanation: words, isRepetition, fault: "foreign" });
    }
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

/** Describes an answer that no API server writes, for instance the page of a proxy in between. */
function foreignWords(answer: WireAnswer): string {
  const { status, contentType, body } = answer;
  const form = body === "" ? "an empty body" : contentType === "" ? "text without a type" : JSON.stringify(contentType);
  return `the answer with status ${status} is ${form} instead of an object in JSON${excerptOf(answer)}: this is no Kubernetes API server`;
}

/**
 * Tells whether a refusal without a Status object comes from elsewhere: a redirect, a page, or a complaint about the protocol. A server
 * without an API says 404 in plain text, and an authenticating proxy may say 401 and 403 in its own words.
 */
function isForeignRefusal({ status, contentType }: WireAnswer): boolean {
  if (status >= 500) return false;
  if (contentType.includes("html") || status < 400) return true;
  return !contentType.includes("json") && ![401, 403, 404, 429].includes(status);
}

/**
 * Says what is wrong with an answer of 2xx.
 * @param redacted cuts secrets out of what is repeated of it
 */
export function problemOfAnswer(request: ApiRequest, answer: WireAnswer, redacted: (answer: WireAnswer) => WireAnswer): string | undefined {
  const { contentType, body } = answer;
  const isJson = contentType.includes("json") || contentType === "";
  // Parsing is left to the reader where nothing is compared here: a list of ten thousand blocks has some 30 MiB.
  if (!isJson || !/^\s*\{/.test(body) || !body.trimEnd().endsWith("}")) return foreignWords(redacted(answer));
  const asked = askedBy(request);
  if (asked === undefined) return undefined;
  const object = parsedObject(body);
  if (object === undefined) return foreignWords(redacted(answer));
  return isAbout(asked, request, object) ? undefined : OTHER_OBJECT;
}

/** The answer to another request: whatever comes next over that connection cannot be trusted either. */
export const OTHER_OBJECT = "the answer is about something else than was asked for";

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

function isAbout(asked: Asked, { method, accept }: ApiRequest, { apiVersion, kind, metadata }: Fields): boolean {
  // Metadata do not say of which resource they are.
  if (accept?.includes("as=PartialObjectMetadataList") && kind === "PartialObjectMetadataList") return true;
  if (apiVersion !== asked.apiVersion || typeof kind !== "string") return false;
  if (method === "GET" && asked.name === "") return kind.endsWith("List") && pluralOf(kind.slice(0, -"List".length)) === asked.plural;
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
