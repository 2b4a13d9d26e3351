/**
 * Every operation of the API (A§2.3), once: the server's routes, the OpenAPI document, the typed client and docs/api.md come from here.
 */
import { CniCall, CniResult } from "./cni-models.ts";
import { ref, type TSchema, Type } from "./model.ts";
import { DaemonConfiguration, ErrorObject, StatusResponse } from "./models.ts";

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
  /** It changes nothing, and members of the socket's group may call it. */
  readonly isRead: boolean;
}

const CALL_HEADERS = Type.Object({
  "tortie-deadline-ms": Type.Optional(
    Type.String({ pattern: "^[0-9]{1,9}$", description: "Milliseconds after which the caller wants no answer" }),
  ),
  traceparent: Type.Optional(Type.String({ description: "W3C trace context" })),
});

function cniCall(path: string, summary: string) {
  return {
    method: "POST",
    path: `/cni/${path}`,
    summary,
    tag: "cni",
    headers: CALL_HEADERS,
    body: ref(CniCall),
    answers: { 200: CniResult },
    isRead: false,
  } as const satisfies Operation;
}

export const OPERATIONS = {
  getConfig: {
    method: "GET",
    path: "/config",
    summary: "How this agent runs",
    tag: "node",
    answers: { 200: ref(DaemonConfiguration) },
    isRead: true,
  },
  getHealthz: {
    method: "GET",
    path: "/healthz",
    summary: "All checks, waits and findings",
    tag: "node",
    answers: { 200: ref(StatusResponse) },
    isRead: true,
  },
  cniAdd: cniCall("add", "ADD: attaches a sandbox"),
  cniDel: cniCall("del", "DEL: detaches a sandbox"),
  cniCheck: cniCall("check", "CHECK: compares an attachment with what ADD made"),
  cniGc: cniCall("gc", "GC: removes attachments that the runtime no longer knows"),
  cniStatus: {
    method: "GET",
    path: "/cni/status",
    summary: "STATUS of this node, without a network configuration",
    tag: "cni",
    answers: { 200: CniResult },
    isRead: false,
  },
  cniStatusOf: cniCall("status", "STATUS: could an ADD of this network configuration succeed?"),
} as const satisfies Readonly<Record<string, Operation>>;

export type Operations = typeof OPERATIONS;
export type OperationName = keyof Operations;
export const OPERATION_NAMES = Object.keys(OPERATIONS) as readonly OperationName[];

export const ERROR_ANSWER = ref(ErrorObject);
export const BASE_PATH = "/v1";
