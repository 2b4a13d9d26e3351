/** Reading the members of a kubeconfig one by one, so that a wrong one is named with its key and its place. */

import { TortieError } from "../../errors/errors.ts";
import { isObject } from "../../json/decode.ts";

type Members = Readonly<Record<string, unknown>>;

/** One mapping of a kubeconfig. A member that is null counts as absent. */
export class Fields {
  readonly #members: Members;
  /** For messages: `user "u" of /root/.kube/config`. */
  readonly place: string;

  /** @throws TortieError `kubeconfig-invalid` when `value` is no mapping */
  constructor(value: unknown, place: string) {
    if (!isObject(value)) throw new TortieError("kubeconfig-invalid", `${place} must be a mapping, not ${kindOf(value)}`);
    this.#members = value;
    this.place = place;
  }

  /** An empty text counts as absent. @throws TortieError `kubeconfig-invalid` */
  text(key: string): string | undefined {
    const value = this.#members[key] ?? undefined;
    if (value === undefined || typeof value === "string") return value || undefined;
    throw this.#wrong(key, "a string", value);
  }

  /** @throws TortieError `kubeconfig-invalid` when it is absent, empty or no string */
  requiredText(key: string): string {
    const value = this.text(key);
    if (value === undefined) throw new TortieError("kubeconfig-invalid", `${this.nameOf(key)} is missing`);
    return value;
  }

  /** @throws TortieError `kubeconfig-invalid` */
  flag(key: string): boolean {
    const value = this.#members[key] ?? false;
    if (typeof value === "boolean") return value;
    throw this.#wrong(key, "true or false", value);
  }

  /** @throws TortieError `kubeconfig-invalid` */
  texts(key: string): readonly string[] {
    const values = this.#list(key);
    const texts: string[] = [];
    for (const value of values) {
      if (typeof value !== "string") throw this.#wrong(key, "a list of strings", value);
      texts.push(value);
    }
    return texts;
  }

  /** @throws TortieError `kubeconfig-invalid` */
  child(key: string): Fields | undefined {
    const value = this.#members[key] ?? undefined;
    return value === undefined ? undefined : new Fields(value, this.nameOf(key));
  }

  /** The mappings in a list. @throws TortieError `kubeconfig-invalid` */
  children(key: string): readonly Fields[] {
    return this.#list(key).map((value, index) => new Fields(value, this.nameOf(`${key}[${index}]`)));
  }

  /** Whatever stands there. */
  raw(key: string): unknown {
    return this.#members[key] ?? undefined;
  }

  keys(): readonly string[] {
    return Object.keys(this.#members);
  }

  /** For messages: `token of user "u" of /root/.kube/config`. */
  nameOf(key: string): string {
    return `${key} of ${this.place}`;
  }

  #list(key: string): readonly unknown[] {
    const value = this.#members[key] ?? [];
    if (Array.isArray(value)) return value;
    throw this.#wrong(key, "a list", value);
  }

  /** The value itself may be a secret and is left out. */
  #wrong(key: string, wanted: string, value: unknown): TortieError {
    return new TortieError("kubeconfig-invalid", `${this.nameOf(key)} must be ${wanted}, not ${kindOf(value)}`);
  }
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "a mapping" : `a ${typeof value}`;
}
