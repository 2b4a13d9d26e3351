/**
 * Reads the fields of stored JSON: each is of the type it must have, or the object is refused with the field's name. `field` and
 * `optional` are for objects of our own; `section`, `text` and their like for those of Kubernetes, where absent, null and empty mean
 * the same. `readAll` reads an object by a table of its members.
 */

export type Fields = Readonly<Record<string, unknown>>;

/** Parses an object's text. @throws Error naming what is wrong */
export function parseObject(text: string): Fields {
  const parsed: unknown = JSON.parse(text);
  if (!isObject(parsed)) throw new Error("not an object");
  return parsed;
}

/** Does as `parseObject`. @returns `undefined` for what is no JSON object */
export function parsedObject(text: string): Fields | undefined {
  try {
    return parseObject(text);
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Tells a value of one type from anything else. */
export type Guard<T> = (value: unknown) => value is T;

export const isText: Guard<string> = (value) => typeof value === "string";
export const isNumber: Guard<number> = (value) => typeof value === "number";
export const isBoolean: Guard<boolean> = (value) => typeof value === "boolean";

export function listOf<T>(guard: Guard<T>): Guard<readonly T[]> {
  return (value): value is readonly T[] => Array.isArray(value) && value.every(guard);
}

export function mapOf<T>(guard: Guard<T>): Guard<Readonly<Record<string, T>>> {
  return (value): value is Readonly<Record<string, T>> => isObject(value) && Object.values(value).every(guard);
}

export function oneOf<T extends string>(...words: readonly T[]): Guard<T> {
  const known: ReadonlySet<unknown> = new Set(words);
  return (value): value is T => known.has(value);
}

/** Reads a field that must be there. @throws Error naming the field */
export function field<T>(object: Fields, name: string, guard: Guard<T>): T {
  const value = object[name];
  if (!guard(value)) throw new Error(`${name} is missing or of the wrong type`);
  return value;
}

/** `{ [name]: value }`, or `{}` when the field is absent, for spreading. @throws Error naming the field */
export function optional<K extends string, T>(object: Fields, name: K, guard: Guard<T>): { [P in K]?: T } {
  if (object[name] === undefined) return {};
  const found: { [P in K]?: T } = {};
  found[name] = field(object, name, guard);
  return found;
}

const NOTHING: Fields = {};
const isTexts = mapOf(isText);
const isObjects = listOf(isObject);
const isTextList = listOf(isText);

/** Reads an object's member that is an object itself. @throws Error when it is something else */
export function section(object: Fields, name: string): Fields {
  return has(object, name) ? field(object, name, isObject) : NOTHING;
}

export function text(object: Fields, name: string): string {
  return has(object, name) ? field(object, name, isText) : "";
}

export function flag(object: Fields, name: string): boolean {
  return has(object, name) ? field(object, name, isBoolean) : false;
}

export function number(object: Fields, name: string): number {
  return has(object, name) ? field(object, name, isNumber) : 0;
}

export function textList(object: Fields, name: string): readonly string[] {
  return has(object, name) ? field(object, name, isTextList) : [];
}

export function texts(object: Fields, name: string): Readonly<Record<string, string>> {
  return has(object, name) ? field(object, name, isTexts) : {};
}

export function objects(object: Fields, name: string): readonly Fields[] {
  return has(object, name) ? field(object, name, isObjects) : [];
}

/** Tells whether the member is there and not null. */
export function has(object: Fields, name: string): boolean {
  return object[name] !== undefined && object[name] !== null;
}

/** Reads the field of a name. @throws Error naming the field */
export type Reader<T> = (object: Fields, name: string) => T;

/** How each member of `T` is read from the field of its own name. */
export type Readers<T> = { readonly [K in keyof T]-?: Reader<T[K]> };

/** Reads a field that must be there. */
export function must<T>(guard: Guard<T>): Reader<T> {
  return (object, name) => field(object, name, guard);
}

/** Reads a field that may be absent. */
export function may<T>(read: Reader<T>): Reader<T | undefined> {
  return (object, name) => (object[name] === undefined ? undefined : read(object, name));
}

/** Reads a list of objects that must be there. */
export function mustList<T>(readers: Readers<T>): Reader<readonly T[]> {
  return (object, name) => field(object, name, isObjects).map((one) => readAll(readers, one));
}

/**
 * Reads the members in the order of `readers`, without those that are absent.
 * @throws Error naming the field that is not what it must be
 */
export function readAll<T>(readers: Readers<T>, object: Fields): T {
  const read: Partial<T> = {};
  for (const name in readers) {
    const value = readers[name](object, name);
    if (value !== undefined) read[name] = value;
  }
  return read as T; // the loop has filled in every member of T with its own reader, but for those that may be undefined
}
