/**
 * One call of a runtime, from environment and standard input, checked in the order of I§1.2: variables, JSON, name, version, operation.
 * Main and IPAM plugin are called in the same way; they differ only in the version of a result when `cniVersion` is absent (version.ts).
 */
import { messageOf, TortieError } from "../errors/errors.ts";
import { parseJson } from "../json/parse.ts";
import { JsonSyntaxError } from "../json/syntax-error.ts";
import { isJsonObject, type JsonObject, type JsonValue, kindOf, memberOf } from "../json/value.ts";
import { readToEnd } from "../system/files.ts";
import { isOwnNamespace, OWN_REFUSED } from "../system/netns.ts";
import { commandOf, type Environment, isCniName, readEnvironment } from "./environment.ts";
import type { CniRequest } from "./protocol.ts";
import { checkOperation, checkVersion } from "./version.ts";

/**
 * VERSION, and a person's call without CNI_COMMAND, need no request: whoever answers them does it before.
 * @param readStdin called at most once
 * @throws TortieError `environment-missing`, `environment-invalid`, `stdin-unreadable`, `netconf-not-json`, `network-name-invalid`,
 * `version-unsupported`, `operation-unsupported`, `command-unknown`
 */
export function readCall(env: Environment, readStdin: () => Uint8Array): CniRequest {
  const text = env.CNI_COMMAND ?? "";
  const command = commandOf(text);
  const environment = readEnvironment(command, env);
  const stdin = readBytes(readStdin);
  const netconf = parseNetconf(stdin);
  const network = networkName(netconf);
  const cniVersion = checkVersion(stringMember(netconf, "cniVersion"));
  if (command === undefined || command === "VERSION") throw new TortieError("command-unknown", `unknown CNI_COMMAND: ${text}`);
  checkOperation(command, cniVersion);
  return { command, ...environment, stdin, netconf, network, cniVersion };
}

function readBytes(readStdin: () => Uint8Array): Uint8Array {
  try {
    return readStdin();
  } catch (cause) {
    throw new TortieError("stdin-unreadable", `error reading from stdin: ${messageOf(cause)}`, { cause });
  }
}

/** null counts as a configuration without any key (recording conf-not-json). */
function parseNetconf(stdin: Uint8Array): JsonObject {
  const netconf = parse(stdin);
  if (isJsonObject(netconf)) return netconf;
  if (netconf === null) return {};
  throw new TortieError("netconf-not-json", `error unmarshall network config: expected an object, found ${kindOf(netconf)}`);
}

function parse(stdin: Uint8Array): JsonValue {
  try {
    return parseJson(stdin);
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    throw new TortieError("netconf-not-json", `error unmarshall network config: ${cause.message}`, { cause });
  }
}

function networkName(netconf: JsonObject): string {
  const name = stringMember(netconf, "name");
  if (name === undefined || name === "") throw new TortieError("network-name-invalid", "missing network name");
  if (!isCniName(name)) throw new TortieError("network-name-invalid", "invalid characters found in network name", { details: name });
  return name;
}

/** null is as good as absent. */
function stringMember(netconf: JsonObject, key: string): string | undefined {
  const value = memberOf(netconf, key);
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return value;
  throw new TortieError("netconf-not-json", `error unmarshall network config: ${key}: expected a string, found ${kindOf(value)}`);
}

const STDIN = 0;

/**
 * All bytes of standard input, to its end; none when it is closed.
 * @throws SystemError, for instance EISDIR
 */
export function readStandardInput(): Uint8Array {
  return readToEnd(STDIN, "standard input");
}

/**
 * Looked at before anything is touched; Calico's plugins look when everything is done (recordings netns-own, env-netns-own).
 * @throws TortieError `netns-own` unless the caller insists with CNI_NETNS_OVERRIDE
 */
export function refuseOwnNamespace(request: Pick<CniRequest, "netns" | "netnsOverride">): void {
  if (request.netns === "" || request.netnsOverride || !isOwnNamespace(request.netns)) return;
  throw new TortieError("netns-own", OWN_REFUSED);
}
