/**
 * Reads the members of a JSON object by their types, by the rules Calico's users know from Go (C§1.1): keys match in any letter case, a key
 * given several times counts from left to right (objects merge, the last plain value wins), `null` leaves the default, a wrong type is an
 * error that names the key's path and the value. Keys that no codec names are not looked at.
 */
import { KeyError } from "../errors/errors.ts";
import { isJsonObject, type JsonObject, type JsonValue, RawNumber } from "../json/value.ts";

/** One place where a key was found; `path` has the keys as the user spelled them. */
interface Found {
  readonly value: JsonValue;
  readonly path: string;
}

/** Knows one JSON type. */
export interface Codec<T> {
  /** What the type is called in messages and in docs/reference/configuration.md. */
  readonly type: string;
  /** Keys inside, for objects of known members and lists of them. */
  readonly members: Members | undefined;
  /**
   * Reads the value of all occurrences, in the order of the text; `undefined` when all are null.
   * @throws TortieError `netconf-type`
   */
  decode(found: readonly Found[]): T | undefined;
}

/** What a codec yields. */
export type Decoded<C> = C extends Codec<infer T> ? T : never;

export type Members = Readonly<Record<string, Codec<unknown>>>;
type DecodedMembers<M extends Members> = { readonly [K in keyof M]: Decoded<M[K]> | undefined };

/** A string. */
export const text: Codec<string> = plain("a string", (value) => (typeof value === "string" ? value : undefined));

/** A string whose value never appears in a message. */
export const secret: Codec<string> = plain("a string", (value) => (typeof value === "string" ? value : undefined), true);

export const boolean: Codec<boolean> = plain("a boolean", (value) => (typeof value === "boolean" ? value : undefined));

/** Signed integer of 64 bits, written without fraction and exponent; beyond 2^53 the nearest number that JavaScript has. */
export const integer: Codec<number> = plain("an integer", (value) => integerOf(value, MIN_INT64, MAX_INT64));

/** Unsigned integer of 64 bits. */
export const natural: Codec<number> = plain("an integer that is not negative", (value) => integerOf(value, 0n, MAX_UINT64));

/** Anything at all. */
export const anything: Codec<JsonValue> = {
  type: "anything",
  members: undefined,
  decode: (found) => found.at(-1)?.value,
};

/** An object of any members, merged when given under several spellings. */
export const anyObject: Codec<JsonObject> = {
  type: "an object",
  members: undefined,
  decode(found) {
    let result: Record<string, JsonValue> | undefined;
    for (const { value, path } of found) {
      if (value === null) {
        result = undefined;
        continue;
      }
      if (!isJsonObject(value)) throw wrongType(path, "an object", value);
      result = Object.assign(result ?? emptyObject(), value);
    }
    return result;
  },
};

/** Reads a list; a null element is `empty`, a null list is absent. */
export function list<T>(element: Codec<T>, type: string, empty: T): Codec<readonly T[]> {
  return {
    type,
    members: element.members,
    decode(found) {
      let result: readonly T[] | undefined;
      for (const { value, path } of found) {
        if (value === null) {
          result = undefined;
          continue;
        }
        if (!isList(value)) throw wrongType(path, type, value);
        result = value.map((item, index) => element.decode([{ value: item, path: `${path}[${index}]` }]) ?? empty);
      }
      return result;
    },
  };
}

export const texts: Codec<readonly string[]> = list(text, "a list of strings", "");

/** Reads an object of known members. */
export function record<M extends Members>(members: M): Codec<DecodedMembers<M>> {
  return {
    type: "an object",
    members,
    decode(found) {
      const objects: { object: JsonObject; path: string }[] = [];
      for (const { value, path } of found) {
        if (value === null) continue;
        if (!isJsonObject(value)) throw wrongType(path, "an object", value);
        objects.push({ object: value, path });
      }
      return objects.length === 0 ? undefined : decodeMembers(members, objects);
    },
  };
}

/** Reads the known members of one whole object. @throws TortieError `netconf-type` */
export function decodeObject<M extends Members>(members: M, object: JsonObject): DecodedMembers<M> {
  return decodeMembers(members, [{ object, path: "" }]);
}

function decodeMembers<M extends Members>(members: M, objects: readonly { object: JsonObject; path: string }[]): DecodedMembers<M> {
  const found = new Map<string, Found[]>();
  for (const { object, path } of objects) {
    for (const [key, value] of Object.entries(object)) {
      const name = memberName(members, key);
      if (name !== undefined) found.getOrInsert(name, []).push({ value, path: path === "" ? key : `${path}.${key}` });
    }
  }
  const decoded: Record<string, unknown> = emptyObject();
  for (const [name, occurrences] of found) decoded[name] = members[name]?.decode(occurrences);
  return decoded as DecodedMembers<M>; // the loop above filled in every key of M with its own codec
}

/** Finds the member that a key means. Keys are nearly always spelled as documented, so that the others are folded only when one is not. */
export function memberName(members: Members, key: string): string | undefined {
  if (Object.hasOwn(members, key)) return key;
  const folded = foldKey(key);
  return Object.keys(members).find((name) => foldKey(name) === folded);
}

function plain<T extends JsonValue>(type: string, read: (value: JsonValue) => T | undefined, hidden = false): Codec<T> {
  return {
    type,
    members: undefined,
    decode(found) {
      let result: T | undefined;
      for (const { value, path } of found) {
        if (value === null) continue;
        result = read(value);
        if (result === undefined) throw wrongType(path, type, value, hidden);
      }
      return result;
    },
  };
}

/** Letter case of a key does not count. Unicode folds U+017F to "s", which toLowerCase leaves alone (encoding/json folds it as well). */
function foldKey(key: string): string {
  return key.toLowerCase().replaceAll("\u017f", "s");
}

function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function emptyObject<T>(): Record<string, T> {
  return Object.create(null);
}

function wrongType(path: string, type: string, value: JsonValue, hidden = false): KeyError {
  return new KeyError("netconf-type", `failed to load netconf: ${path} must be ${type}, not ${describeValue(value, hidden)}`, path);
}

const MIN_INT64 = -(2n ** 63n);
const MAX_INT64 = 2n ** 63n - 1n;
const MAX_UINT64 = 2n ** 64n - 1n;

/** Longest part of a wrong value that a message repeats. */
const MAX_SHOWN_CHARACTERS = 60;

/**
 * Reads the integer that a JSON number writes out: digits only, no fraction, no exponent, as Go's strconv takes it (recording
 * type-num_queues).
 * @returns `undefined` for anything else and outside of the range
 */
function integerOf(value: JsonValue, min: bigint, max: bigint): number | undefined {
  if (typeof value !== "number" && !(value instanceof RawNumber)) return undefined;
  const written = numberText(value);
  if (!/^-?\d+$/.test(written)) return undefined;
  const exact = BigInt(written);
  return exact >= min && exact <= max ? Number(exact) : undefined;
}

/** Names a value: "the string \"x\"", "the number 1.5", "a list". A hidden value is named by its kind only. */
function describeValue(value: JsonValue, hidden = false): string {
  if (value === null) return "null";
  if (typeof value === "number" || value instanceof RawNumber) return hidden ? "a number" : `the number ${shorten(numberText(value))}`;
  if (typeof value === "boolean") return `the boolean ${value}`;
  if (typeof value === "string") return hidden ? "a string" : `the string ${JSON.stringify(shorten(value))}`;
  return isJsonObject(value) ? "an object" : "a list";
}

function numberText(value: number | RawNumber): string {
  return typeof value === "number" ? String(value) : value.text;
}

function shorten(words: string): string {
  return words.length <= MAX_SHOWN_CHARACTERS ? words : `${words.slice(0, MAX_SHOWN_CHARACTERS)}…`;
}
