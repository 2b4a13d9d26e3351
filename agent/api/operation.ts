/** The description of an operation of the API, apart from what serves it. */
import type { TSchema } from "./model.ts";

export interface Operation {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below /v1, with parameters in braces. */
  readonly path: string;
  readonly summary: string;
  readonly tag: "cni" | "node" | "endpoint" | "ipam";
  readonly params?: TSchema;
  readonly query?: TSchema;
  readonly body?: TSchema;
  readonly headers?: TSchema;
  /** Body of each answer; `null` where there is none. Every operation may also answer with an error. */
  readonly answers: Readonly<Record<number, TSchema | null>>;
  /** Of the answers; JSON when absent. */
  readonly contentType?: "text/plain";
  /** It changes nothing, and members of the socket's group may call it. */
  readonly isRead: boolean;
}
