/**
 * Reads one call of a runtime, from environment and standard input, checked in the order of I§1.2: the CNI_* variables (I§1.2, C§1.3),
 * JSON, name, version, operation. Main and IPAM plugin are called in the same way; they differ only in the version of a result when
 * `cniVersion` is absent. The versions of the specification
 * are here too: which are spoken, which operation needs which, and what an absent `cniVersion` means.
 */
import { messageOf, TortieError } from "../errors/errors.ts";
import { parseJson } from "../json/parse.ts";
import { JsonSyntaxError } from "../json/syntax-error.ts";
import { isJsonObject, type JsonObject, type JsonValue, kindOf, memberOf } from "../json/value.ts";
import { readToEnd } from "../system/files.ts";
import { isOwnNamespace, OWN_REFUSED } from "../system/netns.ts";
import {
  CNI_VERSIONS,
  type CniCommand,
  type CniRequest,
  type CniVersion,
  commandOf,
  type Environment,
  isNeeded,
  missingVariables,
} from "./protocol.ts";

/**
 * Reads one call. VERSION, and a person's call without CNI_COMMAND, need no request: whoever answers them does it before.
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
 * Reads standard input to its end; nothing when it is closed.
 * @throws SystemError, for instance EISDIR
 */
export function readStandardInput(): Uint8Array {
  return readToEnd(STDIN, "standard input");
}

/**
 * Refuses an ADD or CHECK before anything is touched; Calico's plugins look when everything is done (recordings netns-own, env-netns-own).
 * @throws TortieError `netns-own` unless the caller insists with CNI_NETNS_OVERRIDE; `netns-invalid`
 */
export function refuseOwnNamespace(request: Pick<CniRequest, "netns" | "netnsOverride">): void {
  if (namesOwnNamespace(request)) throw new TortieError("netns-own", OWN_REFUSED);
}

/** Tells whether the sandbox of a call is this process's own namespace, without the caller insisting on that. */
export function namesOwnNamespace({ netns, netnsOverride }: Pick<CniRequest, "netns" | "netnsOverride">): boolean {
  return netns !== "" && !netnsOverride && isOwnNamespace(netns);
}

type CniEnvironment = Pick<CniRequest, "containerId" | "netns" | "interfaceName" | "args" | "path" | "netnsOverride">;

/** Longest interface name in bytes: IFNAMSIZ less the terminating zero (include/uapi/linux/if.h). */
export const MAX_INTERFACE_NAME = 15;

/**
 * Reads and checks the variables that `command` needs; what STATUS and GC do not need is empty, whatever the caller set.
 * An unknown command needs nothing: it is refused after its standard input was looked at.
 *
 * @throws TortieError `environment-missing`, `environment-invalid`
 */
export function readEnvironment(command: CniCommand | undefined, env: Environment): CniEnvironment {
  const missing = missingVariables(command, env);
  if (missing.length > 0) throw new TortieError("environment-missing", `required env variables [${missing.join(",")}] missing`);

  const hasAttachment = isNeeded("CNI_CONTAINERID", command);
  const containerId = hasAttachment ? (env.CNI_CONTAINERID ?? "") : "";
  const interfaceName = hasAttachment ? (env.CNI_IFNAME ?? "") : "";
  if (hasAttachment) {
    checkContainerId(containerId);
    checkInterfaceName(interfaceName);
  }
  return {
    containerId,
    netns: hasAttachment ? (env.CNI_NETNS ?? "") : "",
    interfaceName,
    args: env.CNI_ARGS ?? "",
    path: env.CNI_PATH ?? "",
    netnsOverride: env.CNI_NETNS_OVERRIDE === "1" || env.CNI_NETNS_OVERRIDE === "true",
  };
}

/** Knows the characters of container ids and network names (CNI specification; I§1.2). */
export function isCniName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(text);
}

function checkContainerId(containerId: string): void {
  if (!isCniName(containerId)) throw new TortieError("environment-invalid", "invalid characters in containerID", { details: containerId });
}

/** Checks what the kernel accepts as the name of a link (net/core/dev.c, dev_valid_name). */
function checkInterfaceName(name: string): void {
  if (new TextEncoder().encode(name).length > MAX_INTERFACE_NAME) {
    throw new TortieError("environment-invalid", "interface name is too long", {
      details: `interface name should be less than ${MAX_INTERFACE_NAME + 1} characters; CNI_IFNAME is ${JSON.stringify(name)}`,
    });
  }
  const details = `CNI_IFNAME is ${JSON.stringify(name)}`;
  if (name === "." || name === "..") throw new TortieError("environment-invalid", "interface name is . or ..", { details });
  if (/[/:\s\x85]/.test(name)) {
    throw new TortieError("environment-invalid", "interface name contains / or : or whitespace characters", { details });
  }
}

/** The specification gives this meaning to a missing `cniVersion`; the IPAM plugin prints its result in it too (I§1.6). */
export const ABSENT_VERSION: CniVersion = "0.1.0";

/** What Calico's main plugin prints for a missing `cniVersion` (C§5.2). */
export const ABSENT_VERSION_OF_MAIN_RESULT: CniVersion = "0.2.0";

/** First version of the operations that were not there from the beginning. */
const FIRST_VERSION: Partial<Record<CniCommand, CniVersion>> = { CHECK: "0.4.0", STATUS: "1.1.0", GC: "1.1.0" };

export function isCniVersion(text: string): text is CniVersion {
  return CNI_VERSIONS.some((version) => version === text);
}

/** Tells whether `version` is `minimum` or newer. */
export function isAtLeast(version: CniVersion, minimum: CniVersion): boolean {
  return CNI_VERSIONS.indexOf(version) >= CNI_VERSIONS.indexOf(minimum);
}

/**
 * Checks the `cniVersion` of a network configuration; an empty one counts as absent (I§1.2).
 * @throws TortieError `version-unsupported`
 */
export function checkVersion(cniVersion: string | undefined): CniVersion | undefined {
  if (cniVersion === undefined || cniVersion === "") return undefined;
  if (isCniVersion(cniVersion)) return cniVersion;
  const supported = CNI_VERSIONS.map((version) => `"${version}"`).join(" ");
  throw new TortieError("version-unsupported", "incompatible CNI versions", {
    details: `config is ${JSON.stringify(cniVersion)}, plugin supports [${supported}]`,
  });
}

/**
 * Checks that a configuration's version has the operation (recordings verbs-0.3.1, check, status-gc).
 * @throws TortieError `operation-unsupported`
 */
export function checkOperation(command: CniCommand, cniVersion: CniVersion | undefined): void {
  const first = FIRST_VERSION[command];
  const version = cniVersion ?? ABSENT_VERSION;
  if (first === undefined || isAtLeast(version, first)) return;
  throw new TortieError("operation-unsupported", `config version does not allow ${command}`, {
    details: `cniVersion is "${version}", ${command} needs "${first}" or newer`,
  });
}
