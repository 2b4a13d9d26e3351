/** Helpers for the models of the API: JSON Schema with the TypeScript type beside it. */
import { type Static, type TObject, type TProperties, type TSchema, type TUnsafe, Type } from "@sinclair/typebox";

export type { Static, TSchema } from "@sinclair/typebox";
export { Type } from "@sinclair/typebox";

/** Models by name: `components.schemas` of the document. */
export const MODELS = new Map<string, TSchema>();

/** A named model; others refer to it with `ref`. */
export function model<P extends TProperties>(name: string, description: string, properties: P, isOpen = false): TObject<P> {
  const schema = Type.Object(properties, { $id: name, description, additionalProperties: isOpen });
  MODELS.set(name, schema);
  return schema;
}

/** A reference to a named model. */
export function ref<T extends TSchema & { $id?: string }>(schema: T): TUnsafe<Static<T>> {
  return Type.Unsafe<Static<T>>({ $ref: `${schema.$id}#` });
}

/** One of some words. */
export function words<const W extends readonly string[]>(...values: W): TUnsafe<W[number]> {
  return Type.Unsafe<W[number]>({ type: "string", enum: values });
}
