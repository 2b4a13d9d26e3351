/** The body of a call over the socket (A§11.3) and the request that it stands for, validated as the executable validates its own. */
import type { Environment } from "../../lib/cni/environment.ts";
import type { CniRequest } from "../../lib/cni/protocol.ts";
import { readCall } from "../../lib/cni/request.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { type Fields, field, isBoolean, isNumber, isObject, isText, listOf, mapOf, optional, parseObject } from "../../lib/json/decode.ts";
import type { SeenSandbox } from "../../lib/system/sandbox.ts";
import { type CniVerb, PROTOCOL } from "../forward/protocol.ts";
import { decidingVariables } from "../node/nodes.ts";

/** The sandbox as the caller saw it, before the call; device and inode are absent when nothing was there. */
export interface CallerNamespace extends SeenSandbox {
  /** Its number in the caller, who keeps it open during the call. */
  readonly fd?: number;
}

export interface CallBody {
  readonly containerId: string;
  readonly ifname: string;
  readonly args: string;
  /** CNI_PATH. */
  readonly path: string;
  readonly netns: CallerNamespace;
  /** The network configuration, unchanged. */
  readonly stdin: string;
  /** `ipam.type` leads to the caller's own file. */
  readonly ownIpam?: boolean;
  /** The caller's environment besides the variables that have a member here. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * @param body JSON that was parsed; whatever checked it before, this is what decides
 * @throws TortieError `call-invalid`, `protocol-unsupported`
 */
export function decodeCallBody(body: unknown): CallBody {
  if (!isObject(body)) throw new TortieError("call-invalid", "the body of the call is no object");
  const protocol = invalidUnless(() => field(body, "protocol", isNumber));
  assertProtocol(protocol);
  return invalidUnless(() => ({
    containerId: textOr(body, "containerId"),
    ifname: textOr(body, "ifname"),
    args: textOr(body, "args"),
    path: textOr(body, "path") || (optional(body, "pluginDirs", listOf(isText)).pluginDirs ?? []).join(":"),
    netns: decodeNamespace(optional(body, "netns", isObject).netns ?? {}),
    stdin: field(body, "stdin", isText),
    ...optional(body, "ownIpam", isBoolean),
    env: optional(body, "env", mapOf(isText)).env ?? {},
  }));
}

/** @throws TortieError `protocol-unsupported` */
export function assertProtocol(protocol: number): void {
  if (protocol === PROTOCOL) return;
  throw new TortieError("protocol-unsupported", `protocol ${protocol} is not spoken here, only ${PROTOCOL}`);
}

/** @throws TortieError as `decodeCallBody` */
export function parseCallBody(text: string): CallBody {
  return decodeCallBody(invalidUnless(() => parseObject(text)));
}

/** As a record keeps it, for the DEL of its attachment: of the caller's environment only what decides something. */
export function callText(body: CallBody): string {
  return JSON.stringify(callFields(body));
}

/** The members of `callText`. */
export function callFields(body: CallBody) {
  const { fd: _, ...netns } = body.netns;
  return { protocol: PROTOCOL, ...body, netns, env: Object.fromEntries(decidingVariables(body.env)) };
}

/** The caller's environment as the executable had it. An agent's own must not decide anything. */
export function environmentOf(verb: CniVerb, body: CallBody): Environment {
  const { containerId, ifname, args, path, netns, env } = body;
  return {
    ...env,
    CNI_COMMAND: verb.toUpperCase(),
    CNI_CONTAINERID: containerId,
    CNI_IFNAME: ifname,
    CNI_NETNS: netns.path,
    CNI_PATH: path,
    ...(args === "" ? {} : { CNI_ARGS: args }),
  };
}

/** @throws TortieError as `readCall` */
export function requestOf(env: Environment, { stdin, ownIpam }: Pick<CallBody, "stdin" | "ownIpam">): CniRequest {
  const call = readCall(env, () => new TextEncoder().encode(stdin));
  return ownIpam === undefined ? call : { ...call, ownIpam };
}

/** Of everything that decides the result of an ADD but the sandbox, whose identity is compared by itself. */
export function digestOf({ containerId, ifname, args, path, stdin, env }: CallBody): string {
  return sha256(JSON.stringify([containerId, ifname, args, path, stdin, decidingVariables(env)]));
}

export function sha256(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}

function decodeNamespace(netns: Fields): CallerNamespace {
  const [dev, ino] = [numberText(netns, "dev"), numberText(netns, "ino")];
  return {
    path: textOr(netns, "path"),
    ...(dev === undefined || ino === undefined ? {} : { dev, ino }),
    ...optional(netns, "cookie", isText),
    ...optional(netns, "fd", isNumber),
  };
}

/** An inode may be beyond 2^53, so text is as good as a number. */
function numberText(object: Fields, name: string): string | undefined {
  const value = object[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
  if (typeof value === "string" && /^\d+$/.test(value)) return value;
  throw new Error(`${name}: expected a whole number`);
}

function textOr(object: Fields, name: string): string {
  return optional(object, name, isText)[name] ?? "";
}

function invalidUnless<T>(decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    throw new TortieError("call-invalid", `the body of the call: ${messageOf(error)}`, { cause: error });
  }
}
