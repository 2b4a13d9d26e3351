/**
 * What answers of etcd's gateway say. Keys and values are base64 there, and texts here; revisions are decimal texts on both sides, because
 * they have 64 bits. The gateway leaves out what is empty, zero or false (protobuf's JSON), but never the header. Readers throw an Error
 * that says what is wrong: no member has written such an answer, or it is not about what was asked.
 */
import { messageOf } from "../../errors/errors.ts";
import { type Fields, field, flag, isText, objects, parseObject, section, text } from "../../json/decode.ts";
import { excerpt } from "../../log/format.ts";
import type { Secrets } from "../../log/secrets.ts";
import { CODES, EtcdError } from "./etcd-error.ts";

/** One key as it is stored. */
export interface KeyValue {
  readonly key: string;
  readonly value: string;
  readonly modRevision: string;
}

/** Characters of what an answer that is not understood is said to have. */
const QUOTED = 500;

/** int64 above zero: etcd counts from 1, and 0 is a key that does not exist. */
const REVISION = /^[1-9][0-9]{0,18}$/;

/** Of the whole store, when it answered. */
export function revisionOf(answer: Fields): string {
  return checkedRevision(section(answer, "header"), "revision");
}

/** The pairs of an answer to a range. @param isAsked whether a key can be among them */
export function pairsOf(range: Fields, isAsked: (key: string) => boolean): readonly KeyValue[] {
  return objects(range, "kvs").map((fields) => {
    const pair = pairOf(fields);
    if (!isAsked(pair.key)) throw new Error(`it is about ${JSON.stringify(pair.key)}, which was not asked for`);
    return pair;
  });
}

/** Of a key that was deleted the value is empty. */
export function pairOf(pair: Fields): KeyValue {
  return {
    key: fromBase64(field(pair, "key", isText)),
    value: fromBase64(text(pair, "value")),
    modRevision: checkedRevision(pair, "mod_revision"),
  };
}

/** Of a transaction with a comparison. */
export interface Decision {
  readonly isDone: boolean;
  readonly revision: string;
  /** What the key of the comparison holds instead, where nothing was done. */
  readonly there: KeyValue | undefined;
}

/** @param key of the comparison, and of the only range that is asked for where it fails */
export function decisionOf(answer: Fields, key: string): Decision {
  const revision = revisionOf(answer);
  if (flag(answer, "succeeded")) return { isDone: true, revision, there: undefined };
  const [first] = objects(answer, "responses");
  if (first === undefined) throw new Error("it has neither been done nor says what is there");
  return { isDone: false, revision, there: pairsOf(field(first, "response_range", isRange), (there) => there === key)[0] };
}

export function toBase64(plain: string): string {
  return new TextEncoder().encode(plain).toBase64();
}

function fromBase64(encoded: string): string {
  return new TextDecoder().decode(Uint8Array.fromBase64(encoded));
}

function isRange(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function checkedRevision(of: Fields, name: string): string {
  const revision = text(of, name);
  if (!REVISION.test(revision)) throw new Error(`${name} is ${JSON.stringify(revision)}`);
  return revision;
}

/**
 * An answer's text as `read` takes it.
 * @param secrets taken out of what an error quotes
 * @throws EtcdError when it is no JSON object, or `read` refuses it
 */
export function understood<T>(body: string, read: (answer: Fields) => T, url: string, secrets: Pick<Secrets, "redact">): T {
  const json = parsed(body);
  try {
    if (json !== undefined) return read(json);
  } catch (error) {
    throw notUnderstood(url, excerpt(secrets.redact(messageOf(error)), QUOTED));
  }
  throw notUnderstood(url, "it is no JSON object");
}

/** The parser's own words quote what they stumble over, which may be a part of a secret. */
function parsed(body: string): Fields | undefined {
  try {
    return parseObject(body);
  } catch {
    return undefined;
  }
}

/** What it answers to may have been done. */
function notUnderstood(url: string, reason: string): EtcdError {
  return new EtcdError(`etcd ${url}: the answer is not understood: ${reason}`, { code: CODES.none, isRepetition: true });
}
