/**
 * Encodes and decodes a call as records and the delete queue keep it: JSON, from which an undo, a GC and a repeated DEL make their own
 * call. call-frame.ts has the form for the socket.
 */
import type { CniRequest, Environment } from "../lib/cni/protocol.ts";
import { readCall } from "../lib/cni/request.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { type Fields, field, isBoolean, isNumber, isObject, isText, listOf, mapOf, optional, parseObject } from "../lib/json/decode.ts";
import { sha256 } from "../lib/system/hash.ts";
import { parseCniArgs, withIgnoreUnknown } from "../lib/workload/requested.ts";
import type { CallCommand, CallerNamespace, CniCall } from "./call.ts";

/** Version of the members. */
const PROTOCOL = 1;

/**
 * @param text JSON @param command what it asks for
 * @throws TortieError `call-invalid`, `protocol-unsupported`
 */
export function parseCall(text: string, command: CallCommand): CniCall {
  return decodeCall(
    invalidUnless(() => parseObject(text)),
    command,
  );
}

/** @throws TortieError as `parseCall` */
export function decodeCall(body: Fields, command: CallCommand): CniCall {
  const protocol = invalidUnless(() => field(body, "protocol", isNumber));
  if (protocol !== PROTOCOL) throw new TortieError("protocol-unsupported", `protocol ${protocol} is not spoken here, only ${PROTOCOL}`);
  return invalidUnless(() => {
    const text = field(body, "stdin", isText);
    const netns = decodeNamespace(optional(body, "netns", isObject).netns ?? {});
    const args = textOr(body, "args");
    return {
      command,
      env: {
        ...optional(body, "env", mapOf(isText)).env,
        CNI_COMMAND: command,
        CNI_CONTAINERID: textOr(body, "containerId"),
        CNI_IFNAME: textOr(body, "ifname"),
        CNI_NETNS: netns.path,
        CNI_PATH: textOr(body, "path") || (optional(body, "pluginDirs", listOf(isText)).pluginDirs ?? []).join(":"),
        ...(args === "" ? {} : { CNI_ARGS: args }),
      },
      stdin: new TextEncoder().encode(text),
      text,
      netns,
      ...optional(body, "ownIpam", isBoolean),
    };
  });
}

/** Encodes the call as a record keeps it, for the DEL of its attachment. */
export function callText(call: CniCall): string {
  return JSON.stringify(callFields(call));
}

/** Lists the members of `callText`: only variables that decide something, and no descriptor, which ends with its process. */
export function callFields({ env, text, netns: { fd: _, ...netns }, ownIpam }: CniCall) {
  const { CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifname = "", CNI_ARGS: args = "", CNI_PATH: path = "" } = env;
  const deciding = Object.fromEntries(decidingVariables(env));
  return { protocol: PROTOCOL, containerId, ifname, args, path, netns, stdin: text, ownIpam, env: deciding };
}

/** Digests everything that decides the result of an ADD but the sandbox, whose identity is compared by itself. */
export function digestOf({ env, text }: CniCall): string {
  const { CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifname = "", CNI_ARGS: args = "", CNI_PATH: path = "" } = env;
  return sha256(JSON.stringify([containerId, ifname, args, path, text, decidingVariables(env)]));
}

/** Reads the request as the executable would from its environment and standard input. @throws TortieError as `readCall` */
export function requestOf({ env, stdin, ownIpam }: CniCall): CniRequest {
  return { ...readCall(env, () => stdin), ownIpam };
}

/** @returns "namespace/name"; `undefined` for a plain container, and for arguments that cannot be read */
export function podOfCall({ env }: Pick<CniCall, "env">): string | undefined {
  try {
    const { podNamespace, podName } = parseCniArgs(withIgnoreUnknown(env.CNI_ARGS ?? ""));
    return podName === "" ? undefined : `${podNamespace}/${podName}`;
  } catch {
    return undefined;
  }
}

/** Variables of the caller that decide about a datastore, its group, its proxy or its credentials. */
const DECIDING = /^(CALICO_|DATASTORE_|ETCD_|K8S_|KUBE|FELIX_INTERFACEPREFIX$|HOME$|SSL_CERT_FILE$|(HTTPS?|NO|ALL)_PROXY$)/i;

/** Lists deciding variables in the order of their names: the same for two callers whose other variables differ, such as that of a trace. */
export function decidingVariables(env: Environment): readonly (readonly [string, string | undefined])[] {
  return Object.entries(env)
    .filter(([name]) => DECIDING.test(name))
    .sort(([one], [other]) => (one < other ? -1 : 1));
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

/** Reads text or a number, since an inode may be beyond 2^53. */
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
