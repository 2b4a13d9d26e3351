/**
 * Typed access to the members of a CNI result: every wrong type is refused with its path. Keys match in any letter case, null is absent.
 */
import { TortieError } from "../errors/errors.ts";
import { kindOf, memberOf } from "../json/members.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../json/value.ts";

/** A JSON object of a result and where it stands, for instance "CNI result: ips[0]". */
export class ResultFields {
  readonly #object: JsonObject;
  readonly #path: string;
  readonly #separator: string;

  /** @throws TortieError `result-invalid` when `value` is no object */
  constructor(value: JsonValue, path: string, separator = ".") {
    this.#path = path;
    this.#separator = separator;
    if (!isJsonObject(value)) throw this.refusal(`expected an object, found ${kindOf(value)}`);
    this.#object = value;
  }

  /** The error that names this object, or the member `key` of it. */
  refusal(problem: string, key?: string): TortieError {
    return new TortieError("result-invalid", `${key === undefined ? this.#path : this.#pathOf(key)}: ${problem}`);
  }

  /** An empty string counts as absent, as everywhere in CNI results. */
  string(key: string): string | undefined {
    const value = this.#member(key);
    if (value === undefined || value === "") return undefined;
    if (typeof value !== "string") throw this.#wrongType(key, "a string", value);
    return value;
  }

  /** Without fraction and exponent, and small enough to be exact. */
  integer(key: string): number | undefined {
    const value = this.#member(key);
    if (value === undefined) return undefined;
    if (typeof value !== "number" || !Number.isSafeInteger(value)) throw this.#wrongType(key, "an integer", value);
    return value;
  }

  strings(key: string): string[] {
    return this.#array(key).map((value, index) => {
      if (typeof value !== "string") throw this.#wrongType(`${key}[${index}]`, "a string", value);
      return value;
    });
  }

  object(key: string): ResultFields | undefined {
    const value = this.#member(key);
    return value === undefined ? undefined : new ResultFields(value, this.#pathOf(key));
  }

  objects(key: string): ResultFields[] {
    return this.#array(key).map((value, index) => new ResultFields(value, this.#pathOf(`${key}[${index}]`)));
  }

  #array(key: string): readonly JsonValue[] {
    const value = this.#member(key);
    if (value === undefined) return [];
    if (!isArray(value)) throw this.#wrongType(key, "an array", value);
    return value;
  }

  #member(key: string): JsonValue | undefined {
    return memberOf(this.#object, key) ?? undefined;
  }

  #pathOf(key: string): string {
    return `${this.#path}${this.#separator}${key}`;
  }

  #wrongType(key: string, expected: string, value: JsonValue): TortieError {
    return this.refusal(`expected ${expected}, found ${kindOf(value)}`, key);
  }
}

/** Array.isArray does not narrow readonly arrays. */
function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}
