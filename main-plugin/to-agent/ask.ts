/**
 * Makes one call to the agent, on a connection of its own (A§11.3): what is sent, what became of it, and what an answer means for the
 * plugin. The connection stays open both ways until the answer has come.
 */
import { closeSync, fstatSync, openSync } from "node:fs";
import type { PreparedCall } from "../../handover/call.ts";
import { type AnswerFrame, BUSY, DO_IT_YOURSELF, DONE, decodeAnswer, encodeCall, FLAGS } from "../../handover/call-frame.ts";
import type { FoundAgent } from "../../handover/run-directory.ts";
import { isRunningExecutable, lookUpPlugin } from "../../lib/cni/plugin-file.ts";
import { systemErrorText } from "../../lib/system/errno.ts";

declare module "bun" {
  /** Connects by a descriptor. Bun can, and has a type for it, which its declarations of `connect` lack. */
  function connect<Data = undefined>(options: FdSocketOptions<Data>): Promise<Socket<Data>>;
}

/** What is left to do for a call. */
export type Way =
  /** To print `output` and to end. */
  | { readonly kind: "answered"; readonly exit: 0 | 1; readonly output: Uint8Array }
  /** To serve it in this process: there was never an agent, or the agent is not to know of the call. */
  | { readonly kind: "no-agent" }
  /** To serve it in this process, and to record it for an agent that may come back at any time (A§11.6). */
  | {
      readonly kind: "agent-away";
      readonly call: PreparedCall;
      readonly agent: FoundAgent;
      /** What is queued for the agent it may never carry out. */
      readonly isLeft: boolean;
      readonly why: string;
    }
  /** To unplug the attachment, and to leave the rest of its DEL to the agent (A§11.5). */
  | { readonly kind: "agent-away-del"; readonly call: PreparedCall; readonly agent: FoundAgent; readonly why: string };

/** What became of a call that was sent. */
export type Outcome =
  | Answer
  /** No agent listens: nothing was sent. */
  | { readonly kind: "absent"; readonly reason: string }
  /** The connection ended before the whole answer had come: the agent may have done what was asked, or not. */
  | { readonly kind: "lost"; readonly reason: string }
  /** No whole answer within the time. */
  | { readonly kind: "late" };

interface Answer extends AnswerFrame {
  readonly kind: "answer";
}

/** A call as it is sent: with the version of the executable. */
export interface SentCall extends PreparedCall {
  readonly plugin: string;
}

/**
 * Returns the call with its sandbox opened: the path may be used again by another sandbox, the descriptor may not.
 * @returns `undefined` for a sandbox that a DEL may miss and no other operation
 */
export function withOpenSandbox<C extends PreparedCall>(call: C): C | undefined {
  const { path } = call.netns;
  if (path === "") return call;
  try {
    const fd = openSync(path, "r");
    const { dev, ino } = fstatSync(fd, { bigint: true });
    return { ...call, netns: { path, dev: String(dev), ino: String(ino), fd } };
  } catch {
    return call.command === "DEL" ? call : undefined;
  }
}

/** Closes the sandbox before the plugin serves the call itself and opens it when it needs it. */
export function closeSandbox({ netns: { fd } }: PreparedCall): void {
  if (fd !== undefined) closeSync(fd);
}

/** Adds what only the caller can say: whether the IPAM plugin of the configuration is this very file (C§2.5). */
export function withOwnIpam<C extends PreparedCall>(call: C): C {
  const { executable } = lookUpPlugin(call.settings.ipamType, call.env.CNI_PATH ?? "");
  return executable === undefined || !isRunningExecutable(executable) ? call : { ...call, ownIpam: true };
}

/** @param limitMs for the whole exchange @returns what became of it; `undefined` for a call that is too long for the agent */
export function askAgent(call: SentCall, limitMs: number): Promise<Outcome> | undefined {
  const { dev, ino, fd } = call.netns;
  const message = encodeCall({
    flags: FLAGS.isJudged | (call.ownIpam === true ? FLAGS.ownIpam : 0),
    plugin: call.plugin,
    deadlineMs: limitMs,
    sandbox: dev === undefined || ino === undefined ? undefined : { dev: BigInt(dev), ino: BigInt(ino), fd },
    env: call.env,
    stdin: call.stdin,
  });
  if (message === undefined) return undefined;
  return exchange((socket) => Bun.connect({ unix: call.runDirectory.calls, socket }), message, limitMs);
}

/** Waits for the answer to a call that was sent over a connection that is open. @param fd of the connection, closed afterwards */
export function awaitAnswer(fd: number, limitMs: number): Promise<Outcome> {
  return exchange((socket) => Bun.connect({ fd, socket }), new Uint8Array(), limitMs);
}

/** @returns `undefined` when the agent did not serve the call: it is busy, or lacks what the call needs */
export function wayOf({ status, body }: Answer, { command }: PreparedCall): Way | undefined {
  if (status === DONE) return { kind: "answered", exit: 0, output: body };
  // STATUS asks how the agent is, and busy is an answer.
  const isUnserved = status === DO_IT_YOURSELF || (status === BUSY && command !== "STATUS");
  return isUnserved ? undefined : { kind: "answered", exit: 1, output: body };
}

type Connect = (handler: Bun.SocketHandler<undefined>) => Promise<Bun.Socket<undefined>>;

function exchange(connect: Connect, message: Uint8Array, limitMs: number): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  let sent = 0;
  let received = Buffer.alloc(0);
  const send = (socket: Bun.Socket<undefined>) => {
    // A socket takes what fits into its buffer, and says when there is room again (drain).
    if (sent < message.length) sent += socket.write(message.subarray(sent));
  };
  const finish = (reason: string) => resolve(readAnswer(received) ?? { kind: "lost", reason });
  const connecting = connect({
    open: send,
    drain: send,
    data(socket, chunk) {
      received = Buffer.concat([received, chunk]);
      const answer = readAnswer(received);
      if (answer === undefined) return;
      resolve(answer);
      socket.end();
    },
    close: () => finish("the agent closed the connection"),
    error: (_, error) => finish(error.message),
  });
  connecting.catch((error: unknown) => resolve({ kind: "absent", reason: systemErrorText(error) ?? String(error) }));
  const timer = setTimeout(() => {
    resolve({ kind: "late" });
    // Closing the connection makes the agent take back what the caller no longer waits for.
    void connecting.then((socket) => socket.terminate());
  }, limitMs);
  return promise.finally(() => clearTimeout(timer));
}

/** @returns `undefined` while it is not whole */
function readAnswer(received: Buffer): Outcome | undefined {
  const answer = decodeAnswer(received);
  if (answer === undefined) return undefined;
  return answer === "foreign" ? { kind: "lost", reason: "the answer has another form" } : { kind: "answer", ...answer };
}
