/**
 * Makes one call to the agent, on a connection of its own (A§11.3): what is sent, what became of it, and what an answer means for the
 * plugin. The connection stays open both ways until the answer has come.
 */
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import type { PreparedCall } from "../../handover/call.ts";
import { type AnswerFrame, BUSY, DO_IT_YOURSELF, DONE, decodeAnswer, encodeCall, FLAGS } from "../../handover/call-frame.ts";
import { isRunningExecutable, lookUpPlugin } from "../../lib/cni/plugin-file.ts";
import { systemErrorText } from "../../lib/system/errno.ts";

const { O_RDONLY, O_NONBLOCK } = constants;

declare module "bun" {
  /** Connects by a descriptor. Bun can, and has a type for it, which its declarations of `connect` lack. */
  function connect<Data = undefined>(options: FdSocketOptions<Data>): Promise<Socket<Data>>;
}

/** What is left to do for a call. */
export type Way =
  /** Print `output` and end. */
  | { readonly kind: "answered"; readonly exit: 0 | 1; readonly output: Uint8Array }
  /** Serve it in this process: the network configuration leaves its attachments to the plugins, or something is wrong with the call. */
  | { readonly kind: "here" }
  /** Unplug the attachment, and queue the rest of its DEL for the agent (A§11.5). */
  | { readonly kind: "unplug"; readonly call: PreparedCall; readonly why: string };

/** Result of sending a call to the agent. */
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

/** A call as it is sent. */
export interface SentCall extends PreparedCall {
  /** Version of the executable. */
  readonly plugin: string;
  /** Longest wait for the answer, milliseconds. */
  readonly limitMs: number;
}

/** Returns the call with its sandbox opened, if there is one: the path may lead to another sandbox later, the descriptor may not. */
export function withOpenSandbox<C extends PreparedCall>(call: C): C {
  const { path } = call.netns;
  if (path === "") return call;
  try {
    const fd = openSync(path, O_RDONLY | O_NONBLOCK);
    const { dev, ino } = fstatSync(fd, { bigint: true });
    return { ...call, netns: { path, dev: String(dev), ino: String(ino), fd } };
  } catch {
    return call;
  }
}

/** Closes the sandbox of a call that goes no further. */
export function closeSandbox({ netns: { fd } }: PreparedCall): void {
  if (fd !== undefined) closeSync(fd);
}

/** Adds what only the caller can say: whether the IPAM plugin of the configuration is this very file (C§2.5). */
export function withOwnIpam<C extends PreparedCall>(call: C): C {
  const { executable } = lookUpPlugin(call.settings.ipamType, call.env.CNI_PATH ?? "");
  return executable === undefined || !isRunningExecutable(executable) ? call : { ...call, ownIpam: true };
}

/** @param limitMs for the whole exchange */
export async function askAgent(call: SentCall, limitMs: number): Promise<Outcome> {
  const { dev, ino, fd } = call.netns;
  const message = encodeCall({
    flags: FLAGS.isJudged | (call.ownIpam === true ? FLAGS.ownIpam : 0),
    plugin: call.plugin,
    deadlineMs: limitMs,
    sandbox: dev === undefined || ino === undefined ? undefined : { dev: BigInt(dev), ino: BigInt(ino), fd },
    env: call.env,
    stdin: call.stdin,
  });
  if (message === undefined) return { kind: "absent", reason: "its environment and network configuration have more than 1 MiB together" };
  return exchange((socket) => Bun.connect({ unix: call.runDirectory.calls, socket }), message, limitMs);
}

/** Waits for the answer to a call that was sent over a connection that is open. @param fd of the connection, closed afterwards */
export function awaitAnswer(fd: number, limitMs: number): Promise<Outcome> {
  return exchange((socket) => Bun.connect({ fd, socket }), new Uint8Array(), limitMs);
}

/** @returns `undefined` when the agent did not serve the call: it is busy, or cannot read it */
export function wayOf({ status, body }: Answer): Way | undefined {
  if (status === DONE) return { kind: "answered", exit: 0, output: body };
  return status === DO_IT_YOURSELF || status === BUSY ? undefined : { kind: "answered", exit: 1, output: body };
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
