/** Reads calls, whose bytes may be anything, and writes answers on the agent's end of the call socket (A§11.3). */
import { TortieError } from "../lib/errors/errors.ts";
import { MAX_BODY_BYTES } from "./call.ts";
import {
  ANSWER_HEADER_BYTES,
  CALL_HEADER_BYTES,
  type CallFrame,
  FRAME_VERSION,
  MAGIC,
  NO_DESCRIPTOR,
  type SeenSandbox,
} from "./call-frame.ts";

export interface SentAnswer {
  readonly status: number;
  readonly body: string;
  readonly endpoint?: number;
  readonly warnings?: number;
}

/** Magic and version. */
const BEGINNING_BYTES = 6;
const ZERO = 0;
const MOST_NUMBER = 0xffff_ffff;

/**
 * Says how many bytes the call has, by what has come of it so far.
 *
 * @returns `undefined` while that is not known
 * @throws TortieError `call-invalid`, `protocol-unsupported`, `request-too-large`
 */
export function callLength(received: Buffer): number | undefined {
  if (received.length >= 4 && received.readUInt32LE(0) !== MAGIC) throw invalid("it does not begin as a call does");
  if (received.length < BEGINNING_BYTES) return undefined;
  const version = received.readUInt16LE(4);
  if (version !== FRAME_VERSION) {
    throw new TortieError("protocol-unsupported", `version ${version} of the call socket is not spoken here, only ${FRAME_VERSION}`);
  }
  if (received.length < CALL_HEADER_BYTES) return undefined;
  const length = lengthsOf(received).reduce((sum, each) => sum + each, 0);
  if (length > MAX_BODY_BYTES) {
    throw new TortieError("request-too-large", `the call has ${length} bytes, more than ${MAX_BODY_BYTES}`);
  }
  return CALL_HEADER_BYTES + length;
}

/**
 * @param received as many bytes as `callLength` says
 * @throws TortieError as `callLength`; `call-invalid` also for a call that is cut off or has something behind it
 */
export function decodeCall(received: Buffer): CallFrame {
  const whole = callLength(received);
  if (whole !== received.length) throw invalid(`it has ${received.length} bytes instead of ${whole ?? `${CALL_HEADER_BYTES} and more`}`);
  const [pluginLength, variablesLength] = lengthsOf(received);
  const variablesAt = CALL_HEADER_BYTES + pluginLength;
  const stdinAt = variablesAt + variablesLength;
  return {
    flags: received.readUInt32LE(8),
    plugin: decodeText(received.subarray(CALL_HEADER_BYTES, variablesAt), "the plugin's version"),
    deadlineMs: received.readUInt32LE(24),
    sandbox: decodeSandbox(received),
    env: decodeVariables(received.subarray(variablesAt, stdinAt)),
    stdin: received.subarray(stdinAt),
  };
}

export function encodeAnswer({ status, body, endpoint = 0, warnings = 0 }: SentAnswer): Uint8Array {
  const output = Buffer.from(body);
  const header = Buffer.alloc(ANSWER_HEADER_BYTES);
  header.writeUInt32LE(MAGIC, 0);
  header.writeUInt16LE(FRAME_VERSION, 4);
  header.writeUInt16LE(status, 6);
  header.writeUInt32LE(output.length, 8);
  header.writeUInt32LE(endpoint, 12);
  header.writeUInt32LE(Math.min(warnings, MOST_NUMBER), 16);
  return Buffer.concat([header, output]);
}

/** Reads the lengths of plugin version, variables and standard input. */
function lengthsOf(header: Buffer): readonly [number, number, number] {
  return [header.readUInt32LE(12), header.readUInt32LE(16), header.readUInt32LE(20)];
}

function decodeSandbox(header: Buffer): SeenSandbox | undefined {
  const [fd, dev, ino] = [header.readInt32LE(28), header.readBigUInt64LE(32), header.readBigUInt64LE(40)];
  // No file has the inode 0.
  if (ino === 0n) {
    if (fd !== NO_DESCRIPTOR || dev !== 0n) throw invalid("it has a sandbox without an inode");
    return undefined;
  }
  if (fd < NO_DESCRIPTOR) throw invalid(`its sandbox has the descriptor ${fd}`);
  return { dev, ino, fd: fd === NO_DESCRIPTOR ? undefined : fd };
}

function decodeVariables(bytes: Buffer): Readonly<Record<string, string>> {
  const env = new Map<string, string>();
  if (bytes.length > 0 && bytes.at(-1) !== ZERO) throw invalid("its last variable has no end");
  for (const variable of decodeText(bytes.subarray(0, -1), "a variable").split("\0")) {
    if (bytes.length === 0) break;
    const equals = variable.indexOf("=");
    if (equals < 1) throw invalid("one of its variables has no name");
    const name = variable.slice(0, equals);
    // Programs disagree about which one counts.
    if (env.has(name)) throw invalid(`it has the variable ${name} twice`);
    env.set(name, variable.slice(equals + 1));
  }
  return Object.fromEntries(env);
}

function decodeText(bytes: Buffer, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    throw new TortieError("call-invalid", `the call on the socket: ${what} is no UTF-8`, { cause: error });
  }
}

function invalid(problem: string): TortieError {
  return new TortieError("call-invalid", `the call on the socket: ${problem}`);
}
