/** A call and its answer (A§11.3): what is sent, and what an answer means for the plugin. */
import type { FoundAgent } from "../run-directory/agent-file.ts";
import { type Answer, ask, type Outcome } from "./ask.ts";
import { BUSY, DO_IT_YOURSELF, DONE, encodeCall, FLAGS } from "./call-frame.ts";
import type { PreparedCall } from "./prepared-call.ts";

/** What is left to do for a call. */
export type Way =
  /** To print `output` and to end. */
  | { readonly kind: "answered"; readonly exit: 0 | 1; readonly output: Uint8Array }
  /** To serve it in this process, as where there was never an agent. */
  | { readonly kind: "direct" }
  /** To serve it in this process, beside an agent that is away or that may come back at any time (A§11.6). */
  | {
      readonly kind: "beside";
      readonly call: PreparedCall;
      readonly agent: FoundAgent;
      /** What is queued for the agent it may never carry out. */
      readonly isLeft: boolean;
      readonly why: string;
    }
  /** To unplug the attachment, and to leave the rest of its DEL to the agent (A§11.5). */
  | { readonly kind: "queue"; readonly call: PreparedCall; readonly agent: FoundAgent; readonly why: string };

export const DIRECT: Way = { kind: "direct" };

/** @returns what became of it; `undefined` for a call that is too long for the agent */
export function askAgent(call: PreparedCall, limitMs: number): Promise<Outcome> | undefined {
  const { plugin, ownIpam, netns } = call.body;
  const message = encodeCall({
    flags: FLAGS.isJudged | (ownIpam === true ? FLAGS.ownIpam : 0),
    plugin,
    deadlineMs: limitMs,
    ...(netns?.dev === undefined || netns.ino === undefined
      ? {}
      : { sandbox: { dev: BigInt(netns.dev), ino: BigInt(netns.ino), ...(netns.fd === undefined ? {} : { fd: netns.fd }) } }),
    env: call.env,
    stdin: call.stdin,
  });
  return message === undefined ? undefined : ask(call.runDirectory.calls, message, limitMs);
}

/** @returns `undefined` for an answer that is none to the call: the agent is busy, or the caller serves it */
export function wayOf({ status, body }: Answer, { command }: PreparedCall): Way | undefined {
  if (status === DONE) return { kind: "answered", exit: 0, output: body };
  // STATUS asks how the agent is, and busy is an answer.
  const isNone = status === DO_IT_YOURSELF || (status === BUSY && command !== "STATUS");
  return isNone ? undefined : { kind: "answered", exit: 1, output: body };
}
