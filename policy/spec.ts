/**
 * Reads the parts of a policy's spec, and names the field that is not what it must be. As in Go, null and absent mean the same for a
 * member; an element of a list must be there. A member that nobody knows is refused: whoever left it out could open more than the author wrote.
 */
import { type Fields, isObject } from "../lib/json/decode.ts";

/** Longest value that a problem repeats. */
const LONGEST_SHOWN = 60;

/** Says in one sentence which field makes a policy invalid. */
export class SpecProblem extends Error {
  /** @param path the field, as in `spec.ingress[1].ports[0].endPort` */
  constructor(path: string, what: string) {
    super(`${path} ${what}`);
  }
}

/** A value somewhere in a spec. */
export interface Part {
  /** As in `spec.ingress[1].ports[0].endPort`. */
  readonly path: string;
  /** `undefined`: absent or null. */
  readonly value: unknown;
}

/** An object somewhere in a spec. */
export interface ObjectPart extends Part {
  readonly value: Fields;
}

/** Finds a member that the object has itself. */
export function member(object: ObjectPart, name: string): Part {
  const value = Object.hasOwn(object.value, name) ? object.value[name] : undefined;
  return { path: `${object.path}.${name}`, value: value === null ? undefined : value };
}

/** @throws SpecProblem when it is something else, or has a member besides `known` */
export function asObject({ path, value }: Part, known: readonly string[]): ObjectPart {
  if (!isObject(value)) throw new SpecProblem(path, `is ${show(value)}, not an object`);
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new SpecProblem(path, `has a member ${show(unknown)} that is not known here`);
  return { path, value };
}

/** Lists the elements, none where the list is absent. @throws SpecProblem when it is something else */
export function asList({ path, value }: Part): readonly Part[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new SpecProblem(path, `is ${show(value)}, not a list`);
  return Array.from(value, (element: unknown, index) => ({ path: `${path}[${index}]`, value: element }));
}

/** @throws SpecProblem when it is something else */
export function asText({ path, value }: Part): string {
  if (typeof value !== "string") throw new SpecProblem(path, `is ${show(value)}, not a text`);
  return value;
}

/** Writes a value for a problem: short, and in plain characters, as it ends up in events and logs. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  if (value === undefined) return "missing";
  if (typeof value !== "string") return String(value);
  const plain = value.slice(0, LONGEST_SHOWN).replaceAll(/[^\x20-\x7e]/g, "?");
  return `"${plain}${value.length > LONGEST_SHOWN ? "…" : ""}"`;
}
