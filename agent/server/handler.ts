/** What serves an operation: plain functions of a request, which know nothing of HTTP but statuses. */
import type { OperationName } from "../api/operations.ts";
import type { BodyOf, ParamsOf, QueryOf } from "../api/types.ts";
import type { Access } from "./access.ts";
import type { Peer } from "./peer.ts";

export interface HandlerRequest<N extends OperationName> {
  readonly params: ParamsOf<N>;
  readonly query: QueryOf<N>;
  readonly body: BodyOf<N>;
  /** Header fields by their names in small letters. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly peer: Peer;
  readonly access: Access;
  /** Aborts when the caller is gone or the agent ends. */
  readonly signal: AbortSignal;
}

/** `body` as text is sent as it is, anything else as JSON. */
export interface HandlerAnswer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

type Handler<N extends OperationName> = (request: HandlerRequest<N>) => Promise<HandlerAnswer> | HandlerAnswer;
export type Handlers = { readonly [N in OperationName]: Handler<N> };
