/** One call to the agent, on a connection of its own (A§11.3). The connection stays open both ways until the answer has come. */
import { systemErrorText } from "../../lib/system/errno.ts";
import { type AnswerFrame, decodeAnswer } from "./call-frame.ts";

/** What became of a call. */
export type Outcome =
  | Answer
  /** No agent listens: nothing was sent. */
  | { readonly kind: "absent"; readonly reason: string }
  /** The connection ended before the whole answer had come: the agent may have done what was asked, or not. */
  | { readonly kind: "lost"; readonly reason: string }
  /** No whole answer within the time. */
  | { readonly kind: "late" };

export interface Answer extends AnswerFrame {
  readonly kind: "answer";
}

/** @param message a call as `encodeCall` writes it @param limitMs for the whole exchange */
export function ask(socketPath: string, message: Uint8Array, limitMs: number): Promise<Outcome> {
  return exchange((socket) => Bun.connect({ unix: socketPath, socket }), message, limitMs);
}

/** Waits for the answer to a call that was sent over a connection that is open. @param fd of the connection, closed afterwards */
export function awaitAnswer(fd: number, limitMs: number): Promise<Outcome> {
  return exchange((socket) => Bun.connect({ fd, socket }), new Uint8Array(), limitMs);
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
