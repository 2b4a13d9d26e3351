/** The TypeScript types of operations, for the server's handlers and the client. */
import type { Static, TSchema } from "./model.ts";
import type { OperationName, Operations } from "./operations.ts";

type Part<O, K extends string> = O extends { readonly [P in K]: infer S extends TSchema } ? Static<S> : undefined;

export type ParamsOf<N extends OperationName> = Part<Operations[N], "params">;
export type QueryOf<N extends OperationName> = Part<Operations[N], "query">;
export type BodyOf<N extends OperationName> = Part<Operations[N], "body">;

type AnswersOf<N extends OperationName> = Operations[N]["answers"];
type AnswerBody<S> = S extends TSchema ? Static<S> : undefined;

/** One of the answers that are no error. */
export type AnswerOf<N extends OperationName> = {
  [C in keyof AnswersOf<N>]: { readonly status: C; readonly body: AnswerBody<AnswersOf<N>[C]> };
}[keyof AnswersOf<N>];
