/**
 * One request to the agent, on a connection of its own (A§11.3). HTTP/1.1 by hand, over the runtime's socket: `fetch` costs 2.4 ms more in
 * a process that lives for one call, a quarter of what the whole call may take (docs/benchmarks.md).
 */
import { systemErrorText } from "../../lib/system/errno.ts";

/** What became of a request. */
export type Outcome =
  | Answer
  /** No agent listens: nothing was sent. */
  | { readonly kind: "absent"; readonly reason: string }
  /** The connection ended before the whole answer had come: the agent may have done what was asked, or not. */
  | { readonly kind: "lost"; readonly reason: string }
  /** No whole answer within the time. */
  | { readonly kind: "late" };

export interface Answer {
  readonly kind: "answer";
  readonly status: number;
  readonly body: Uint8Array;
}

export interface Request {
  /** Of the URL. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

const LINE_END = "\r\n";
const HEAD_END = LINE_END + LINE_END;

/** @param limitMs for the whole exchange */
export function ask(socketPath: string, request: Request, limitMs: number): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const message = messageOf(request);
  let sent = 0;
  let received = Buffer.alloc(0);
  const send = (socket: Bun.Socket) => {
    // A socket takes what fits into its buffer, and says when there is room again (drain).
    sent += socket.write(message.subarray(sent));
  };
  const finish = (reason: string) => resolve(readAnswer(received) ?? { kind: "lost", reason });
  const connecting = Bun.connect({
    unix: socketPath,
    socket: {
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
    },
  });
  connecting.catch((error: unknown) => resolve({ kind: "absent", reason: systemErrorText(error) ?? String(error) }));
  const timer = setTimeout(() => {
    resolve({ kind: "late" });
    // Closing the connection makes the agent take back what the caller no longer waits for.
    void connecting.then((socket) => socket.terminate());
  }, limitMs);
  return promise.finally(() => clearTimeout(timer));
}

function messageOf({ path, headers, body }: Request): Uint8Array {
  const fields = { host: "localhost", connection: "close", ...headers, "content-length": String(body.length) };
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
  return Buffer.concat([Buffer.from([`POST ${path} HTTP/1.1`, ...head, "", ""].join(LINE_END)), body]);
}

/** @returns `undefined` while it is not whole */
function readAnswer(received: Buffer): Answer | undefined {
  const end = received.indexOf(HEAD_END);
  if (end < 0) return undefined;
  const [statusLine = "", ...fields] = received.toString("latin1", 0, end).toLowerCase().split(LINE_END);
  const fieldOf = (name: string) =>
    fields
      .find((field) => field.startsWith(`${name}:`))
      ?.slice(name.length + 1)
      .trim();
  const rest = received.subarray(end + HEAD_END.length);
  const body = fieldOf("transfer-encoding") === "chunked" ? joinChunks(rest) : cutBody(rest, fieldOf("content-length"));
  return body === undefined ? undefined : { kind: "answer", status: Number(statusLine.split(" ")[1]), body };
}

function cutBody(rest: Buffer, length: string | undefined): Buffer | undefined {
  return length === undefined || rest.length < Number(length) ? undefined : rest.subarray(0, Number(length));
}

/**
 * Each chunk is its size in hexadecimal digits on a line of its own, then its bytes and a line end; the last one is empty (RFC 9112, 7.1).
 */
function joinChunks(rest: Buffer): Buffer | undefined {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = rest.indexOf(LINE_END, at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(rest.toString("latin1", at, lineEnd), 16);
    const start = lineEnd + LINE_END.length;
    if (size === 0) return Buffer.concat(chunks);
    at = start + size + LINE_END.length;
    // Not a number, or not there yet.
    if (!(at <= rest.length)) return undefined;
    chunks.push(rest.subarray(start, start + size));
  }
}
