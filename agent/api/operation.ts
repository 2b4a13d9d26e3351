/** Describes an operation of the API, apart from what serves it: JSON Schema with the TypeScript type beside it. */
import { type Static, type TObject, type TProperties, type TSchema, type TUnsafe, Type } from "@sinclair/typebox";

export { type Static, Type } from "@sinclair/typebox";

/** Models by name: `components.schemas` of the document. */
export const MODELS = new Map<string, TSchema>();

/** Makes a named model without other members; others refer to it with `ref`. */
export function model<P extends TProperties>(name: string, description: string, properties: P): TObject<P> {
  const schema = Type.Object(properties, { $id: name, description, additionalProperties: false });
  MODELS.set(name, schema);
  return schema;
}

/** Refers to a named model. */
export function ref<T extends TSchema & { $id?: string }>(schema: T): TUnsafe<Static<T>> {
  return Type.Unsafe<Static<T>>({ $ref: `${schema.$id}#` });
}

/** Allows one of some words. */
export function words<const W extends readonly string[]>(...values: W): TUnsafe<W[number]> {
  return Type.Unsafe<W[number]>({ type: "string", enum: values });
}

export interface Operation {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below /v1, with parameters in braces. */
  readonly path: string;
  readonly summary: string;
  readonly params?: TSchema;
  readonly query?: TSchema;
  readonly body?: TSchema;
  readonly headers?: TSchema;
  /** Body of each answer; `null` where there is none. Every operation may also answer with an error. */
  readonly answers: Readonly<Record<number, TSchema | null>>;
  /** Of the answers; JSON when absent. An answer of JSON lines has no end: it comes as long as somebody reads. */
  readonly contentType?: "text/plain" | "application/x-ndjson";
  /** Root alone may call it although it is a GET: it does the work of a plugin's call. */
  readonly isRootOnly?: boolean;
}

export type Operations = Readonly<Record<string, Operation>>;

/** Says whether the operation changes nothing, and members of the socket's group may call it. */
export function isRead({ method, isRootOnly = false }: Operation): boolean {
  return method === "GET" && !isRootOnly;
}

/** The type of a part of an operation; `undefined` where the operation lacks it. */
export type Part<O, K extends "params" | "query" | "body"> = O extends { readonly [P in K]: infer S extends TSchema }
  ? Static<S>
  : undefined;

type AnswerBody<S> = S extends TSchema ? Static<S> : undefined;

/** One of the answers that are not errors. */
export type AnswerOf<O extends Operation> = {
  [C in keyof O["answers"]]: { readonly status: C; readonly body: AnswerBody<O["answers"][C]> };
}[keyof O["answers"]];

interface HandlerRequest<O> {
  readonly params: Part<O, "params">;
  readonly query: Part<O, "query">;
  readonly body: Part<O, "body">;
  /** Header fields by their names in small letters. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** `body` as text or as a stream is sent as it is, anything else as JSON. */
export interface HandlerAnswer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

type Handler<O> = (request: HandlerRequest<O>) => Promise<HandlerAnswer> | HandlerAnswer;

/** What serves operations: plain functions of a request, which know nothing of HTTP but statuses. */
export type HandlersOf<T extends Operations> = { readonly [N in keyof T]: Handler<T[N]> };
