/**
 * Runs a program in a container and reads what it prints, as `kubectl exec` does: over a WebSocket whose messages begin with the number of a
 * stream (k8s.io/apimachinery, util/remotecommand/constants.go). client-node's Exec has connections, credentials and proxies of its own and
 * does not say why a server refuses; ours are those of every other request.
 */
import { messageOf, TortieError } from "../../errors/errors.ts";
import { objects, parsedObject, parseObject, section, text } from "../../json/decode.ts";
import type { ApiConnection } from "./connection.ts";

const PROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const [STDOUT, STDERR, STATUS] = [1, 2, 3];
/** Of both streams together: a report of a node with a thousand pods has less than one MiB. */
const MOST_BYTES = 32 * 1024 * 1024;

export interface ExecTarget {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

export interface Executed {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * @param connection of an account that may get and create `pods/exec`
 * @throws TortieError `exec-forbidden`, `credentials-failed`; Error when the program could not be started, or the signal's reason
 */
export async function execute(
  connection: Pick<ApiConnection, "socket" | "exchange">,
  { namespace, pod, container }: ExecTarget,
  command: readonly string[],
  signal: AbortSignal,
): Promise<Executed> {
  const query = new URLSearchParams({ container, stdout: "true", stderr: "true" });
  for (const word of command) query.append("command", word);
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/exec?${query}`;
  for (let isFirst = true; ; isFirst = false) {
    const socket = await connection.socket(path, PROTOCOLS);
    const done = await outcomeOf(socket, signal);
    if (done !== undefined) return done;
    const why = await whyNot(connection, path);
    // Credentials that had expired are new now.
    if (!isFirst || why !== undefined) throw why ?? new Error("the API server takes no WebSocket: is a proxy in between?");
  }
}

/** @returns `undefined` when the server did not take the WebSocket @throws Error when it ended early */
function outcomeOf(socket: WebSocket, signal: AbortSignal): Promise<Executed | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Executed | undefined>();
  const read: [Buffer[], Buffer[]] = [[], []];
  let bytes = 0;
  let isOpen = false;
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  socket.binaryType = "nodebuffer";
  socket.onopen = () => {
    isOpen = true;
  };
  socket.onmessage = ({ data }: MessageEvent<unknown>) => {
    const message = Buffer.isBuffer(data) ? data : Buffer.from(String(data));
    const [stream, rest] = [message[0], message.subarray(1)];
    bytes += rest.length;
    if (bytes > MOST_BYTES) return reject(new Error(`it printed more than ${MOST_BYTES} bytes`));
    if (stream === STDOUT || stream === STDERR) read[stream - 1]?.push(rest);
    if (stream === STATUS) {
      const [stdout, stderr] = read.map((parts) => Buffer.concat(parts).toString("utf8"));
      exitOf(rest.toString("utf8"), (exit) => resolve({ exit, stdout: stdout ?? "", stderr: stderr ?? "" }), reject);
    }
  };
  socket.onclose = () => (isOpen ? reject(new Error("the connection ended before the program did")) : resolve(undefined));
  socket.onerror = () => undefined;
  if (signal.aborted) abort();
  return promise.finally(() => {
    signal.removeEventListener("abort", abort);
    socket.terminate();
  });
}

/** Reads the Status object that ends an execution (KEP-4006; reason NonZeroExitCode with a cause ExitCode). */
function exitOf(json: string, ended: (exit: number) => void, failed: (error: Error) => void): void {
  try {
    const status = parseObject(json);
    const causes = objects(section(status, "details"), "causes");
    const code = causes.find((cause) => text(cause, "reason") === "ExitCode");
    if (text(status, "status") === "Success") ended(0);
    else if (text(status, "reason") === "NonZeroExitCode" && code !== undefined) ended(Number(text(code, "message")));
    else failed(new Error(text(status, "message")));
  } catch (error) {
    failed(new Error(`the end of the program is not understood: ${messageOf(error)}`));
  }
}

/** Asks again without a WebSocket: the answer to that says what a failed handshake hides. @returns `undefined` where the request is right */
async function whyNot(connection: Pick<ApiConnection, "exchange">, path: string): Promise<Error | undefined> {
  const { status, body } = await connection.exchange({ method: "GET", path });
  const said = String(parsedObject(body)?.message ?? `the API server answered ${status}`);
  if (status === 403 || status === 401) return new TortieError("exec-forbidden", said);
  // A request that is all right but no WebSocket: "Upgrade request required".
  return status === 400 ? undefined : new Error(said);
}
