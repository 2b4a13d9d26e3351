/** A call and its answer (A§11.3): what is sent, and what an answer means for the plugin. */
import type { FoundAgent } from "../run-directory/agent-file.ts";
import { type Answer, ask, type Outcome } from "./ask.ts";
import type { PreparedCall } from "./prepared-call.ts";
import { CNI_VERBS, DEADLINE_HEADER } from "./protocol.ts";

/** What is left to do for a call. */
export type Way =
  /** To print `output` and to end. */
  | { readonly kind: "answered"; readonly exit: 0 | 1; readonly output: Uint8Array }
  /** To serve it in this process, as where there was never an agent. */
  | { readonly kind: "direct" }
  /** To serve it in this process, beside an agent that is away or that may come back at any time (A§11.6). */
  | { readonly kind: "beside"; readonly call: PreparedCall; readonly agent: FoundAgent | undefined; readonly why: string }
  /** To unplug the attachment, and to leave the rest of its DEL to the agent (A§11.5). */
  | { readonly kind: "queue"; readonly call: PreparedCall; readonly agent: FoundAgent; readonly why: string };

/** Characters of version, trace, span and flags, in hexadecimal digits with "-" between them. */
const TRACEPARENT_LENGTH = 55;

export const DIRECT: Way = { kind: "direct" };

export function askAgent({ command, body, runDirectory }: PreparedCall, limitMs: number): Promise<Outcome> {
  const headers: Record<string, string> = { [DEADLINE_HEADER]: String(Math.round(limitMs)) };
  const trace = body.env?.TRACEPARENT;
  // Another length is none (W3C Trace Context, version 00), and must not become a line of its own in the request.
  if (trace?.length === TRACEPARENT_LENGTH && !/[^0-9a-f-]/.test(trace)) headers.traceparent = trace;
  const path = `/v1/cni/${CNI_VERBS[command]}`;
  headers["content-type"] = "application/json";
  return ask(runDirectory.socket, { path, headers, body: new TextEncoder().encode(JSON.stringify(body)) }, limitMs);
}

/** @returns `undefined` for an answer that is none to the call: the agent is busy, or cannot serve it */
export function wayOf({ status, body }: Answer, { command }: PreparedCall): Way | undefined {
  if (status === 200) return { kind: "answered", exit: 0, output: body };
  // STATUS asks how the agent is, and busy is an answer.
  const isNone = status === 421 || (status === 503 && command !== "STATUS") || (status === 400 && isUnknownProtocol(body));
  return isNone ? undefined : { kind: "answered", exit: 1, output: body };
}

function isUnknownProtocol(body: Uint8Array): boolean {
  return new TextDecoder().decode(body).includes("protocol-unsupported");
}
