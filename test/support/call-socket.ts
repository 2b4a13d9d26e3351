/** One call over an agent's call socket, made by the test itself (A§11.3). */
import { connect } from "node:net";
import { decodeAnswer, encodeCall, FLAGS } from "../../handover/call-frame.ts";

/** A call of a plugin, as tests write it. */
export interface CniCallBody {
  readonly plugin: string;
  readonly containerId: string;
  readonly ifname: string;
  readonly args?: string;
  readonly path?: string;
  readonly netns?: { readonly path: string; readonly dev?: string; readonly ino?: string; readonly fd?: number };
  readonly stdin: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** An answer to a call of a plugin. */
export interface CallAnswer {
  readonly status: number;
  readonly text: string;
  /** `undefined` where the text is no JSON. */
  readonly json: unknown;
  /** 0 where the call was about none. */
  readonly endpoint: number;
}

/** The bytes of a call, as a plugin that has judged the configuration sends them. */
export function callMessage(verb: string, body: CniCallBody, deadlineMs = 0): Uint8Array {
  const { containerId, ifname, args, path, netns, env, plugin, stdin } = body;
  const variables: Record<string, string> = { ...env, CNI_COMMAND: verb.toUpperCase(), CNI_CONTAINERID: containerId, CNI_IFNAME: ifname };
  for (const [name, value] of Object.entries({ CNI_ARGS: args, CNI_PATH: path, CNI_NETNS: netns?.path })) {
    if (value !== undefined) variables[name] = value;
  }
  const seen =
    netns?.dev === undefined || netns.ino === undefined
      ? {}
      : { sandbox: { dev: BigInt(netns.dev), ino: BigInt(netns.ino), ...(netns.fd === undefined ? {} : { fd: netns.fd }) } };
  const message = encodeCall({ flags: FLAGS.isJudged, plugin, deadlineMs, env: variables, stdin: Buffer.from(stdin), ...seen });
  if (message === undefined) throw new Error("the call is longer than an agent reads");
  return message;
}

/** @throws the signal's reason when it aborts first; Error when the connection ends without an answer */
export function exchangeCall(path: string, message: Uint8Array, signal: AbortSignal): Promise<CallAnswer> {
  return new Promise((done, failed) => {
    const socket = connect(path);
    let received = Buffer.alloc(0);
    signal.addEventListener("abort", () => {
      socket.destroy();
      failed(signal.reason);
    });
    socket.on("error", () => undefined);
    socket.on("close", () => failed(new Error("the connection ended without an answer")));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const answer = decodeAnswer(received);
      if (answer === undefined || answer === "foreign") return;
      const text = new TextDecoder().decode(answer.body);
      done({ status: answer.status, text, json: parsed(text), endpoint: received.readUInt32LE(12) });
      socket.destroy();
    });
    socket.write(message);
  });
}

/** @returns `undefined` for what is no JSON */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
