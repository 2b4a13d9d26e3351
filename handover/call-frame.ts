/**
 * Writes calls and reads answers on the call socket (A§11.3), for the caller. The layout is fixed and its numbers are little-endian, so
 * that a program without a JSON parser can speak it. `decode-frame.ts` is the other end.
 *
 * A call: magic, version (2), 2 empty bytes, flags (4), lengths of plugin version, variables and standard input (4 each), deadline in
 * milliseconds (4), descriptor (4, signed), device (8), inode (8); then the three texts. Each variable is `NAME=value` with a zero behind
 * it.
 *
 * An answer: magic, version (2), status (2), length (4), endpoint (4), warnings (4); then the output.
 */
import type { Environment } from "../lib/cni/protocol.ts";
import { MAX_BODY_BYTES } from "./call.ts";

/** "TCNI": the first bytes of a call and of an answer. */
export const MAGIC = 0x49_4e_43_54;
/** Magic and version of a call, and magic, version and status of an answer, stand in the same place in every version. */
export const FRAME_VERSION = 1;
export const CALL_HEADER_BYTES = 48;
export const ANSWER_HEADER_BYTES = 20;

/** No descriptor. Device and inode are 0 as well where the caller has not seen a sandbox. */
export const NO_DESCRIPTOR = -1;

/** The output is a result: print it and exit with 0. */
export const DONE = 200;
/** The caller serves the call itself. */
export const DO_IT_YOURSELF = 421;
/** The call may succeed later. Every status that is not one of these three is a failure: print the output and exit with 1. */
export const BUSY = 503;

export const FLAGS = {
  /** The caller has read the configuration and chosen this agent. Without it the agent decides whether it is the one that is meant. */
  isJudged: 1,
  /** Of a caller that has read the configuration: `ipam.type` leads to its own file. */
  ownIpam: 2,
  /** Of any caller: the first `tortie-ipam` of CNI_PATH is the file that the caller itself would run. */
  ownTortieIpam: 4,
  /** The same of `calico-ipam`. */
  ownCalicoIpam: 8,
} as const;

/** The sandbox as the caller saw it before the call. */
export interface SeenSandbox {
  readonly dev: bigint;
  readonly ino: bigint;
  /** Its number in the caller, which keeps it open until the answer; absent where it does not. */
  readonly fd?: number;
}

export interface CallFrame {
  /** A sum of `FLAGS`. */
  readonly flags: number;
  /** Version of the caller's executable. */
  readonly plugin: string;
  /** Milliseconds after which the caller wants no answer; 0: it does not know. */
  readonly deadlineMs: number;
  readonly sandbox?: SeenSandbox;
  readonly env: Environment;
  /** Standard input as it came, unparsed. */
  readonly stdin: Uint8Array;
}

export interface AnswerFrame {
  readonly status: number;
  /** What the caller prints. */
  readonly body: Uint8Array;
}

const LONGEST_DEADLINE_MS = 0xffff_ffff;

/** @returns `undefined` for a call that is longer than the agent reads */
export function encodeCall({ flags, plugin, deadlineMs, sandbox, env, stdin }: CallFrame): Uint8Array | undefined {
  const version = Buffer.from(plugin);
  const variables = Buffer.from(variablesText(env));
  if (version.length + variables.length + stdin.length > MAX_BODY_BYTES) return undefined;
  const header = Buffer.alloc(CALL_HEADER_BYTES);
  header.writeUInt32LE(MAGIC, 0);
  header.writeUInt16LE(FRAME_VERSION, 4);
  header.writeUInt32LE(flags, 8);
  header.writeUInt32LE(version.length, 12);
  header.writeUInt32LE(variables.length, 16);
  header.writeUInt32LE(stdin.length, 20);
  header.writeUInt32LE(Math.min(Math.max(Math.round(deadlineMs), 0), LONGEST_DEADLINE_MS), 24);
  header.writeInt32LE(sandbox?.fd ?? NO_DESCRIPTOR, 28);
  header.writeBigUInt64LE(sandbox?.dev ?? 0n, 32);
  header.writeBigUInt64LE(sandbox?.ino ?? 0n, 40);
  return Buffer.concat([header, version, variables, stdin]);
}

/**
 * @returns `undefined` while it is not whole; "foreign" for bytes that no agent sends
 */
export function decodeAnswer(received: Buffer): AnswerFrame | "foreign" | undefined {
  if (received.length >= 4 && received.readUInt32LE(0) !== MAGIC) return "foreign";
  if (received.length < 8) return undefined;
  // Nobody knows what another version says beside its status.
  if (received.readUInt16LE(4) !== FRAME_VERSION) return { status: DO_IT_YOURSELF, body: new Uint8Array() };
  if (received.length < ANSWER_HEADER_BYTES) return undefined;
  const end = ANSWER_HEADER_BYTES + received.readUInt32LE(8);
  if (received.length < end) return undefined;
  return { status: received.readUInt16LE(6), body: received.subarray(ANSWER_HEADER_BYTES, end) };
}

function variablesText(env: Environment): string {
  let text = "";
  for (const [name, value] of Object.entries(env)) if (value !== undefined) text += `${name}=${value}\0`;
  return text;
}
