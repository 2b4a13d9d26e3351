/** The text of `endpoint.json` (A§5.7). Members that this version does not know survive a rewrite. */
import { decodeDesiredState, encodeDesiredState } from "../../../dataplane/desired-state.ts";
import { type Fields, field, isBoolean, isNumber, isObject, isText, listOf, oneOf, optional } from "../../../lib/json/decode.ts";
import { parseJson } from "../../../lib/json/parse.ts";
import { stringifyJson, type Writable } from "../../../lib/json/stringify.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../../lib/json/value.ts";
import {
  ADD_STEPS,
  type Attachment,
  DELETE_STEPS,
  type EndpointRecord,
  isUnfinishedAdd,
  type Phase,
  RECORD_FORMAT,
  type RecordedAddress,
  type RecordedHostInterface,
  type RecordedNamespace,
  type RecordedObject,
  type RecordedRequest,
} from "./endpoint-record.ts";

/** Every member that this version writes; the others are `others`. */
const KNOWN: ReadonlySet<string> = new Set([
  ...["format", "id", "phase", "attachment", "pod", "podUID", "runtimePodUID", "netns", "bootId"],
  ...["hostInterface", "podInterface", "podMac", "hostMac", "linkForm", "linkKind", "addresses", "desired", "request", "result"],
  ...["labels", "identity", "object", "traceparent", "createdAt", "updatedAt", "committedAt", "committedBootMs", "previous"],
]);

const PHASES: readonly Phase[] = [
  "creating",
  ...ADD_STEPS.map((step): Phase => `adding:${step}`),
  "ready",
  ...DELETE_STEPS.map((step): Phase => `deleting:${step}`),
];
const isPhase = oneOf(...PHASES);
const isFamily = (value: unknown): value is 4 | 6 => value === 4 || value === 6;

export function encodeRecord(record: EndpointRecord): string {
  const { desired, others, ...rest } = record;
  const members: { readonly [key: string]: Writable | undefined } = {
    format: RECORD_FORMAT,
    ...rest,
    attachment: { ...rest.attachment },
    netns: { ...rest.netns },
    hostInterface: rest.hostInterface && { ...rest.hostInterface },
    addresses: rest.addresses.map((one) => ({ ...one })),
    request: rest.request && { ...rest.request },
    object: rest.object && { ...rest.object },
    // `sandbox` is for an older agent, which takes a record without it for damaged.
    desired: desired && { sandbox: rest.netns.path, ...encodeDesiredState(desired) },
    ...others,
  };
  return `${stringifyJson(members)}\n`;
}

/**
 * The record as it counts after a restart: an ADD that was repeated over a committed attachment and cut off has changed nothing of it that
 * a build does not mend, and its container may be running.
 * @throws Error as `decodeRecord`
 */
export function decodeSettled(text: string): EndpointRecord {
  const record = decodeRecord(text);
  if (record.previous === undefined || !isUnfinishedAdd(record)) return record;
  return { ...decodeRecord(record.previous), id: record.id };
}

/** @throws Error naming what is wrong: no JSON, cut, another format, a member of the wrong type */
export function decodeRecord(text: string): EndpointRecord {
  const stored = parseJson(text);
  if (!isJsonObject(stored)) throw new Error("not an object");
  const format = field(stored, "format", isNumber);
  if (format !== RECORD_FORMAT) throw new Error(`format ${format} is not known here, only ${RECORD_FORMAT}`);
  return {
    id: field(stored, "id", isNumber),
    phase: field(stored, "phase", isPhase),
    attachment: decodeAttachment(field(stored, "attachment", isObject)),
    ...optional(stored, "pod", isText),
    ...optional(stored, "podUID", isText),
    ...optional(stored, "runtimePodUID", isText),
    netns: decodeNamespace(field(stored, "netns", isObject)),
    bootId: field(stored, "bootId", isText),
    ...decodeLink(stored),
    addresses: field(stored, "addresses", listOf(isObject)).map(decodeAddress),
    ...part(stored, "desired", decodeDesiredState),
    ...part(stored, "request", decodeRequest),
    ...optional(stored, "result", isText),
    ...opaque(stored, "labels"),
    ...opaque(stored, "identity"),
    ...part(stored, "object", decodeObject),
    ...optional(stored, "traceparent", isText),
    createdAt: field(stored, "createdAt", isText),
    updatedAt: field(stored, "updatedAt", isText),
    ...optional(stored, "committedAt", isText),
    ...optional(stored, "committedBootMs", isNumber),
    ...optional(stored, "previous", isText),
    ...othersOf(stored),
  };
}

function decodeAttachment(stored: Fields): Attachment {
  return {
    network: field(stored, "network", isText),
    containerId: field(stored, "containerId", isText),
    ifname: field(stored, "ifname", isText),
  };
}

function decodeNamespace(stored: Fields): RecordedNamespace {
  return {
    path: field(stored, "path", isText),
    ...optional(stored, "dev", isText),
    ...optional(stored, "ino", isText),
    ...optional(stored, "cookie", isText),
    ...optional(stored, "isVisible", isBoolean),
  };
}

function decodeLink(
  stored: Fields,
): Pick<EndpointRecord, "hostInterface" | "podInterface" | "podMac" | "hostMac" | "linkForm" | "linkKind"> {
  return {
    ...part(stored, "hostInterface", decodeHostInterface),
    podInterface: field(stored, "podInterface", isText),
    ...optional(stored, "podMac", isText),
    ...optional(stored, "hostMac", isText),
    linkForm: field(stored, "linkForm", oneOf("routed", "endpoint", "attached")),
    ...optional(stored, "linkKind", oneOf("veth", "netkit")),
  };
}

function decodeHostInterface(stored: Fields): RecordedHostInterface {
  return { name: field(stored, "name", isText), ...optional(stored, "index", isNumber), alias: field(stored, "alias", isText) };
}

function decodeAddress(stored: Fields): RecordedAddress {
  return {
    address: field(stored, "address", isText),
    family: field(stored, "family", isFamily),
    grant: field(stored, "grant", oneOf("file", "block", "external")),
    ...optional(stored, "token", isText),
    ...optional(stored, "handle", isText),
    ...optional(stored, "sequence", isText),
    ...optional(stored, "isUngranted", isBoolean),
  };
}

function decodeRequest(stored: Fields): RecordedRequest {
  return {
    digest: field(stored, "digest", isText),
    cniVersion: field(stored, "cniVersion", isText),
    configDigest: field(stored, "configDigest", isText),
    ...optional(stored, "call", isText),
  };
}

function decodeObject(stored: Fields): RecordedObject {
  return { uid: field(stored, "uid", isText), ...optional(stored, "resourceVersion", isText) };
}

/** `{ [name]: decoded }`, or `{}` when the member is absent. */
function part<K extends string, T>(stored: Fields, name: K, decode: (fields: Fields) => T): { [P in K]?: T } {
  const found: { [P in K]?: T } = {};
  if (stored[name] !== undefined) found[name] = decode(field(stored, name, isObject));
  return found;
}

function opaque<K extends string>(stored: JsonObject, name: K): { [P in K]?: JsonValue } {
  const found: { [P in K]?: JsonValue } = {};
  const value = stored[name];
  if (value !== undefined) found[name] = value;
  return found;
}

function othersOf(stored: JsonObject): { readonly others?: JsonObject } {
  const unknown = Object.entries(stored).filter(([name]) => !KNOWN.has(name));
  return unknown.length === 0 ? {} : { others: Object.fromEntries(unknown) };
}
