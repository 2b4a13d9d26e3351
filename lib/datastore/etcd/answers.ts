/**
 * Reads the answers of etcd's gateway, and says what a failed request means to the datastore port. Keys and values are base64 there, and texts here; revisions are decimal texts on both sides, because
 * they have 64 bits. The gateway leaves out what is empty, zero or false (protobuf's JSON), but never the header. Readers throw an Error
 * that says what is wrong: no member has written such an answer, or it is not about what was asked.
 */
import { messageOf } from "../../errors/errors.ts";
import { type Fields, field, flag, isObject, isText, objects, parsedObject, section, text } from "../../json/decode.ts";
import type { ApiFault } from "../../kubernetes/api-client.ts";
import { excerpt } from "../../log/format.ts";
import type { Secrets } from "../../log/secrets.ts";
import { DatastoreError, type DatastoreFailure, FAULT_WORDS } from "../errors.ts";

/** One key as it is stored. */
export interface KeyValue {
  readonly key: string;
  readonly value: string;
  readonly modRevision: string;
}

/** Characters that a message quotes of an answer that is not understood. */
const QUOTED = 500;

/** int64 above zero: etcd counts from 1, and 0 is a key that does not exist. */
const REVISION = /^[1-9][0-9]{0,18}$/;

/** Reads the revision of the whole store, when it answered. */
export function revisionOf(answer: Fields): string {
  return checkedRevision(section(answer, "header"), "revision");
}

/** Reads the pairs of an answer to a range. @param isAsked whether a key can be among them */
export function pairsOf(range: Fields, isAsked: (key: string) => boolean): readonly KeyValue[] {
  return objects(range, "kvs").map((fields) => {
    const pair = pairOf(fields);
    if (!isAsked(pair.key)) throw new Error(`it is about ${JSON.stringify(pair.key)}, which was not asked for`);
    return pair;
  });
}

/** Reads one pair; the value of a deleted key is empty. */
export function pairOf(pair: Fields): KeyValue {
  return {
    key: fromBase64(field(pair, "key", isText)),
    value: fromBase64(text(pair, "value")),
    modRevision: checkedRevision(pair, "mod_revision"),
  };
}

/** Says how a transaction with a comparison ended. */
export interface Decision {
  readonly isDone: boolean;
  readonly revision: string;
  /** Present content of the compared key, if the comparison failed. */
  readonly there: KeyValue | undefined;
}

/** @param key of the comparison, and of the only range that is asked for where it fails */
export function decisionOf(answer: Fields, key: string): Decision {
  const revision = revisionOf(answer);
  if (flag(answer, "succeeded")) return { isDone: true, revision, there: undefined };
  const [first] = objects(answer, "responses");
  if (first === undefined) throw new Error("it has neither been done nor says what is there");
  return { isDone: false, revision, there: pairsOf(field(first, "response_range", isObject), (there) => there === key)[0] };
}

export function toBase64(plain: string): string {
  return new TextEncoder().encode(plain).toBase64();
}

function fromBase64(encoded: string): string {
  return new TextDecoder().decode(Uint8Array.fromBase64(encoded));
}

function checkedRevision(of: Fields, name: string): string {
  const revision = text(of, name);
  if (!REVISION.test(revision)) throw new Error(`${name} is ${JSON.stringify(revision)}`);
  return revision;
}

/**
 * Reads an answer's text with `read`.
 * @param secrets taken out of what an error quotes
 * @throws EtcdError when it is no JSON object, or `read` refuses it
 */
export function understood<T>(body: string, read: (answer: Fields) => T, url: string, secrets: Pick<Secrets, "redact">): T {
  // The parser's own words quote what they stumble over, which may be a part of a secret.
  const json = parsedObject(body);
  try {
    if (json !== undefined) return read(json);
  } catch (error) {
    throw notUnderstood(url, excerpt(secrets.redact(messageOf(error)), QUOTED));
  }
  throw notUnderstood(url, "it is no JSON object");
}

/** What it answers to may have been done. */
function notUnderstood(url: string, reason: string): EtcdError {
  return new EtcdError(`etcd ${url}: the answer is not understood: ${reason}`, { code: CODES.none, isRepetition: true, fault: "foreign" });
}

/** gRPC's status codes, as the JSON gateway passes them on (etcd's api/v3rpc/rpctypes/error.go). 0: no member has answered. */
export const CODES = {
  none: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  outOfRange: 11,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** `message` names the member and the request, and holds nothing secret. There is no cause: a log shows causes as they came. */
export class EtcdError extends Error {
  readonly code: number;
  /** An answer was lost, of this try or of an earlier one: a write may have been carried out. */
  readonly isRepetition: boolean;
  readonly fault: ApiFault | undefined;

  constructor(
    message: string,
    { code, isRepetition, fault }: Pick<EtcdError, "code" | "isRepetition"> & { readonly fault?: ApiFault | undefined },
  ) {
    super(message);
    this.name = "EtcdError";
    this.code = code;
    this.isRepetition = isRepetition;
    this.fault = fault;
  }
}

/** What a member said instead of an answer. */
export interface Refusal {
  readonly code: number;
  readonly message: string;
}

/** etcd's words for a backend that has reached its quota; the alarm stays until an operator disarms it. */
const FULL = "database space exceeded";
/** The member asked is without a leader, or lost it, or is too busy: another one, or the same one later, may answer. */
const PASSING: readonly number[] = [CODES.unavailable, CODES.deadlineExceeded];

export function isFull({ message }: Refusal): boolean {
  return message.includes(FULL);
}

/** The request or its answer is over a limit of gRPC's (--max-request-bytes), which no other member and no later time changes. */
export function isTooLarge({ code, message }: Refusal): boolean {
  return code === CODES.resourceExhausted && message.includes("message larger than max");
}

export function isPassing(refusal: Refusal): boolean {
  return PASSING.includes(refusal.code) || (refusal.code === CODES.resourceExhausted && !isFull(refusal) && !isTooLarge(refusal));
}

/** The token is unknown (members forget them), or was made before the users were changed, or is missing. */
export function wantsNewToken({ code, message }: Refusal): boolean {
  return code === CODES.unauthenticated || /user name is empty|revision of auth store is old/.test(message);
}

export function isCompacted(error: unknown): boolean {
  return error instanceof EtcdError && error.code === CODES.outOfRange && error.message.includes("has been compacted");
}

/**
 * Says what a refused request means to the datastore port. Most messages begin as Calico's do.
 *
 * @param what the object: "IPAMBlock(/calico/ipam/v2/assignment/ipv4/block/10.0.0.0-26)"
 * @param user who asked; empty without authentication
 * @returns anything but an EtcdError as it came
 */
export function asDatastoreError(error: unknown, what: string, user: string): unknown {
  if (!(error instanceof EtcdError)) return error;
  const failure = failureOf(error);
  const fault = error.code === CODES.permissionDenied ? "forbidden" : error.fault;
  return new DatastoreError(failure, messageFor(failure, error, what, user), error, fault && FAULT_WORDS[fault]);
}

function failureOf(error: EtcdError): DatastoreFailure {
  if (wantsNewToken(error)) return "unauthorized";
  if (isTooLarge(error)) return "invalid";
  switch (error.code) {
    case CODES.permissionDenied:
    case CODES.unauthenticated:
      return "unauthorized";
    case CODES.invalidArgument:
      // Of a wrong password too (rpctypes.ErrGRPCAuthFailed).
      return error.message.includes("authentication failed") ? "unauthorized" : "invalid";
    case CODES.none:
    case CODES.unavailable:
    case CODES.deadlineExceeded:
    case CODES.resourceExhausted:
    case CODES.outOfRange:
      return "unavailable";
    default:
      return error.message.includes("authentication is not enabled") ? "unauthorized" : "invalid";
  }
}

function messageFor(failure: DatastoreFailure, error: EtcdError, what: string, user: string): string {
  if (isFull(error)) return `${what}: ${error.message}: compact and defragment etcd, or raise its quota, then disarm the alarm NOSPACE`;
  // Whoever is away is to blame, not the object that happened to be asked for first.
  if (failure === "unavailable") return `${error.message} (${what})`;
  if (failure !== "unauthorized") return `${what}: ${error.message}`;
  return `connection is unauthorized: ${error.message} (${what}; ${whatToGrant(error, user)})`;
}

function whatToGrant({ code, message }: EtcdError, user: string): string {
  if (message.includes("authentication is not enabled")) return "etcd has no users switched on: unset ETCD_USERNAME";
  if (code !== CODES.permissionDenied)
    return user === "" ? "set ETCD_USERNAME and ETCD_PASSWORD" : `check the password of etcd's user "${user}"`;
  return `grant ${user === "" ? "the client" : `user "${user}"`} the permission readwrite on the prefix /calico/`;
}
