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

export const DIRECT: Way = { kind: "direct" };

export function askAgent({ command, body, runDirectory }: PreparedCall, limitMs: number): Promise<Outcome> {
  const headers: Record<string, string> = { [DEADLINE_HEADER]: String(Math.round(limitMs)) };
  const trace = body.env?.TRACEPARENT;
  if (trace !== undefined) headers.traceparent = trace;
  const path = `/v1/cni/${CNI_VERBS[command]}`;
  if (command === "STATUS") return ask(runDirectory.socket, { method: "GET", path, headers, body: new Uint8Array() }, limitMs);
  headers["content-type"] = "application/json";
  return ask(runDirectory.socket, { method: "POST", path, headers, body: new TextEncoder().encode(JSON.stringify(body)) }, limitMs);
}

/** @returns `undefined` for an answer that is none to the call: the agent is busy, or cannot serve it */
export function wayOf({ status, body }: Answer, { command }: PreparedCall): Way | undefined {
  // A healthy agent says nothing of the configuration that it was not shown: the plugin looks at that itself.
  if (status === 200) return command === "STATUS" ? DIRECT : { kind: "answered", exit: 0, output: body };
  if (command === "STATUS") return { kind: "answered", exit: 1, output: body };
  if (status === 503 || status === 421 || (status === 400 && isUnknownProtocol(body))) return undefined;
  return { kind: "answered", exit: 1, output: body };
}

function isUnknownProtocol(body: Uint8Array): boolean {
  return new TextDecoder().decode(body).includes('"protocol-unsupported"');
}
