/** Reads stored JSON by a table of its members, which is also the type of what comes out. Members that no table names are left out. */
import { type Fields, field, isBoolean, isNumber, isObject, isText, must, mustList, type Reader, readAll } from "./decode.ts";

type Shape = Readonly<Record<string, Reader<unknown>>>;
type ValueOf<R> = R extends Reader<infer T> ? T : never;
/** Names of members that may be absent. */
type Optional<S extends Shape> = { [K in keyof S]: undefined extends ValueOf<S[K]> ? K : never }[keyof S];

export type Shaped<S extends Shape> = { readonly [K in Exclude<keyof S, Optional<S>>]: ValueOf<S[K]> } & {
  readonly [K in Optional<S>]?: Exclude<ValueOf<S[K]>, undefined>;
};

/** Reads an object of its own form. @param decode @throws Error naming what is wrong */
export function part<T>(decode: (stored: Fields) => T): Reader<T> {
  return (object, name) => decode(field(object, name, isObject));
}

export function shape<S extends Shape>(members: S): Reader<Shaped<S>> {
  return part((stored) => readShape(members, stored));
}

export function shapes<S extends Shape>(members: S): Reader<readonly Shaped<S>[]> {
  return mustList<Record<string, unknown>>(members) as Reader<readonly Shaped<S>[]>; // as in readShape
}

export const text = must(isText);
export const number = must(isNumber);
export const flag = must(isBoolean);

/** Members in the order of the table. @throws Error naming what is missing or of the wrong type */
export function readShape<S extends Shape>(members: S, stored: Fields): Shaped<S> {
  return readAll<Record<string, unknown>>(members, stored) as Shaped<S>; // every member of S is read by its own reader
}
