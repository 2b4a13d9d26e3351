/**
 * Describes one call of one plugin of a chain: its standard input, the arguments from the command line, and its failure with its place in
 * the chain.
 */
import { existsSync } from "node:fs";
import { isIP } from "node:net";
import { resolve } from "node:path";
import { ForeignCniError, messageOf, TortieError } from "../../errors/errors.ts";
import { parseJson } from "../../json/parse.ts";
import type { JsonObject, JsonValue } from "../../json/value.ts";
import { isJsonObject } from "../../json/value.ts";
import { sha256 } from "../../system/hash.ts";
import type { CniCommand, ValidAttachment } from "../protocol.ts";
import { isCniName, MAX_INTERFACE_NAME } from "../request.ts";
import type { Conflist, PluginConf } from "./conflist.ts";

/**
 * Runs a plugin. `attachment` is absent for STATUS and GC.
 * @returns what it printed; `undefined` when that is nothing
 * @throws ForeignCniError the plugin's own error; TortieError when it cannot be found or run
 */
export type PluginRunner = (
  type: string,
  command: CniCommand,
  attachment: Attachment | undefined,
  netconf: JsonObject,
) => Promise<JsonObject | undefined>;

interface CniFailure {
  readonly code: number;
  readonly message: string;
  /** Empty when there are none. */
  readonly details: string;
}

/** Says that a plugin of the chain said no, or could not be run. */
export class PluginFailure extends Error {
  readonly network: string;
  readonly plugin: string;
  /** "2 of 3" */
  readonly position: string;
  readonly command: CniCommand;
  readonly failure: CniFailure;
  /** What went wrong when a failed ADD was taken back; `undefined`: nothing was taken back. */
  readonly undo: readonly PluginFailure[] | undefined;

  constructor(list: Conflist, plugin: PluginConf, command: CniCommand, failure: CniFailure, undo?: readonly PluginFailure[]) {
    super(`plugin ${plugin.type}: ${command} failed: ${failure.message}`);
    this.name = "PluginFailure";
    this.network = list.name;
    this.plugin = plugin.type;
    this.position = `${list.plugins.indexOf(plugin) + 1} of ${list.plugins.length}`;
    this.command = command;
    this.failure = failure;
    this.undo = undo;
    this.withUndo = (failures) => new PluginFailure(list, plugin, command, failure, failures);
  }

  /** The same failure, with what became of taking the ADD back. */
  readonly withUndo: (failures: readonly PluginFailure[]) => PluginFailure;

  static of(list: Conflist, plugin: PluginConf, command: CniCommand, error: unknown): PluginFailure {
    return new PluginFailure(list, plugin, command, describe(error));
  }
}

function describe(error: unknown): CniFailure {
  if (error instanceof ForeignCniError) return { code: error.code, message: error.message, details: error.details ?? "" };
  if (error instanceof TortieError) {
    const details = [error.details, `${error.word}: ${error.next}`].filter((part) => part !== undefined).join("; ");
    return { code: error.code, message: error.message, details };
  }
  return { code: 999, message: messageOf(error), details: "" };
}

/** Which attachment the operator means: the parameters that a runtime gives to every plugin of the chain (CNI specification, section 2). */
export interface Attachment {
  readonly containerId: string;
  /** Path of the network namespace. */
  readonly netns: string;
  readonly interfaceName: string;
  /** CNI_ARGS. `undefined`: not given, a later operation takes those of the ADD. */
  readonly args: string | undefined;
  /** Capability arguments. `undefined`: not given, a later operation takes those of the ADD. */
  readonly capabilityArgs: JsonObject | undefined;
}

/** A name is one that `ip netns` keeps below /run/netns; anything with a slash is a path. */
export function netnsPath(netns: string): string {
  return netns.includes("/") ? resolve(netns) : `/run/netns/${netns}`;
}

/**
 * Makes the container id of a namespace that got none: 64 hex digits, as container runtimes use. The same namespace has the same id in
 * every call, so ADD and DEL agree without an option. A plain container's host end is named after the first eleven characters of its id
 * (C§4.1), so these must differ between containers: no word stands before the digits.
 */
export function defaultContainerId(netns: string): string {
  return sha256(netns);
}

/** Tells whether the sandbox still exists; runtimes leave CNI_NETNS empty at the DEL of one that does not. */
export function sandboxExists(netns: string): boolean {
  return netns !== "" && existsSync(netns);
}

/**
 * Checks what goes into the plugins' environment, by the rules of the specification.
 * @throws TortieError `option-invalid`
 */
export function checkAttachment(attachment: Attachment): Attachment {
  const { containerId, interfaceName, args } = attachment;
  if (!isCniName(containerId)) {
    invalid(`container id "${containerId}" must start with a letter or digit and hold only letters, digits, "_", "." and "-"`);
  }
  if (interfaceName === "" || interfaceName.length > MAX_INTERFACE_NAME || /^\.\.?$|[/:\s]/.test(interfaceName)) {
    invalid(`interface name "${interfaceName}" must have 1 to ${MAX_INTERFACE_NAME} characters, without "/", ":" and spaces`);
  }
  for (const pair of args?.split(";") ?? []) {
    if (args !== "" && !/^[^=]+=/.test(pair)) invalid(`--args: "${pair}" is not of the form KEY=VALUE; pairs are separated by ";"`);
  }
  return attachment;
}

/**
 * Writes the standard input of one plugin of a chain: its own entry and what the runtime adds (CNI specification, section 3, Deriving
 * execution configuration). Of one attachment: `capabilities` is replaced by the arguments of those that are declared.
 */
export function attachmentNetconf(
  list: Conflist,
  plugin: PluginConf,
  capabilityArgs: JsonObject | undefined,
  prevResult: JsonObject | undefined,
): JsonObject {
  const declared = Object.entries(capabilityArgs ?? {}).filter(([name]) => plugin.capabilities.has(name));
  return {
    ...networkNetconf(list, plugin),
    ...(declared.length === 0 ? {} : { runtimeConfig: Object.fromEntries(declared) }),
    ...(prevResult === undefined ? {} : { prevResult }),
  };
}

/** Writes that of the network as a whole: STATUS. */
export function networkNetconf(list: Conflist, plugin: PluginConf): JsonObject {
  const { capabilities: _replaced, ...entry } = plugin.netconf;
  return { ...entry, name: list.name, cniVersion: list.cniVersion };
}

/** Writes that of GC: with the attachments that are still alive. */
export function gcNetconf(list: Conflist, plugin: PluginConf, valid: readonly ValidAttachment[]): JsonObject {
  const attachments: JsonValue = valid.map(({ containerID, ifname }) => ({ containerID, ifname }));
  return { ...networkNetconf(list, plugin), "cni.dev/valid-attachments": attachments };
}

/** Lists the names of given capability arguments that no plugin of the chain declares, so that no plugin would receive them. */
export function undeclaredCapabilities(list: Conflist, capabilityArgs: JsonObject | undefined): readonly string[] {
  return Object.keys(capabilityArgs ?? {}).filter((name) => !list.plugins.some((plugin) => plugin.capabilities.has(name)));
}

/** The capability arguments of the command line, in the shapes that CNI's conventions give them (CONVENTIONS.md of the specification). */
export interface CapabilityOptions {
  /** A JSON object; the other options are put over it. */
  readonly json: string | undefined;
  /** "[hostIP:]hostPort:containerPort[/protocol]" */
  readonly portMappings: readonly string[];
  /** "ingress=8M,egress=8M[,ingressBurst=…,egressBurst=…]", bits per second and bits. */
  readonly bandwidth: string | undefined;
  readonly mac: string | undefined;
  /** Addresses, with or without a prefix length. */
  readonly ips: readonly string[];
}

/**
 * @returns `undefined` when no option was given
 * @throws TortieError `option-invalid`
 */
export function capabilityArgs(options: CapabilityOptions): JsonObject | undefined {
  const all: JsonObject = {
    ...(options.json === undefined ? {} : jsonArgs(options.json)),
    ...(options.portMappings.length === 0 ? {} : { portMappings: options.portMappings.map(portMapping) }),
    ...(options.bandwidth === undefined ? {} : { bandwidth: bandwidth(options.bandwidth) }),
    ...(options.mac === undefined ? {} : { mac: macAddress(options.mac) }),
    ...(options.ips.length === 0 ? {} : { ips: options.ips.map(ipAddress) }),
  };
  return Object.keys(all).length === 0 ? undefined : all;
}

function jsonArgs(text: string): JsonObject {
  try {
    const value = parseJson(text);
    if (isJsonObject(value)) return value;
  } catch (error) {
    return invalid(`--capability-args is not JSON: ${messageOf(error)}`);
  }
  return invalid("--capability-args: a JSON object is wanted, one member a capability");
}

function portMapping(text: string): JsonObject {
  const match = /^(?:(\[[0-9a-fA-F:.]+\]|[0-9.]+):)?(\d+):(\d+)(?:\/(tcp|udp|sctp))?$/.exec(text);
  const [, host, hostPort, containerPort, protocol = "tcp"] = match ?? [];
  const hostIP = host?.replace(/^\[|\]$/g, "");
  if (!isPort(hostPort) || !isPort(containerPort) || (hostIP !== undefined && isIP(hostIP) === 0)) {
    invalid(`--port-mapping "${text}" is not of the form [HOST-IP:]HOST-PORT:CONTAINER-PORT[/tcp|udp|sctp]`);
  }
  return { hostPort: Number(hostPort), containerPort: Number(containerPort), protocol, ...(hostIP === undefined ? {} : { hostIP }) };
}

function isPort(text: string | undefined): boolean {
  return text !== undefined && Number(text) >= 1 && Number(text) <= 65535;
}

const RATE_KEYS = ["ingress", "egress", "ingressBurst", "egressBurst"];

/** Ingress is what the pod receives. A burst not given is a tenth of a second's traffic, and at least one segment of 64 KiB. */
function bandwidth(text: string): JsonObject {
  const given = new Map(
    text.split(",").map((pair): [string, number] => {
      const [, key = "", value = ""] = /^(\w+)=(.+)$/.exec(pair) ?? [];
      if (!RATE_KEYS.includes(key)) invalid(`--bandwidth "${pair}" is not of the form NAME=BITS with NAME one of ${RATE_KEYS.join(", ")}`);
      return [key, bits(value)];
    }),
  );
  const limits: Record<string, number> = {};
  for (const direction of ["ingress", "egress"]) {
    const rate = given.get(direction);
    const burst = given.get(`${direction}Burst`);
    if (rate === undefined && burst !== undefined) invalid(`--bandwidth: ${direction}Burst needs ${direction} too`);
    if (rate === undefined) continue;
    limits[`${direction}Rate`] = rate;
    limits[`${direction}Burst`] = burst ?? Math.max(Math.ceil(rate / 10), 64 * 1024 * 8);
  }
  return limits;
}

/** Reads a number of bits; k, M and G are powers of 1000, as for link rates everywhere. */
function bits(text: string): number {
  const [, digits, unit = ""] = /^(\d+(?:\.\d+)?)([kKMG]?)$/.exec(text) ?? [];
  if (digits === undefined) invalid(`--bandwidth: "${text}" is no number of bits such as 500k, 8M or 1G`);
  const factor = unit === "" ? 1 : unit === "M" ? 1e6 : unit === "G" ? 1e9 : 1e3;
  return Math.round(Number(digits) * factor);
}

function macAddress(text: string): string {
  if (!/^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$/.test(text)) invalid(`--mac "${text}" is not of the form 0a:58:0a:f4:00:05`);
  return text;
}

function ipAddress(text: string): string {
  const [address = "", length] = text.split("/");
  const family = isIP(address);
  if (family === 0 || (length !== undefined && !(/^\d+$/.test(length) && Number(length) <= (family === 4 ? 32 : 128)))) {
    invalid(`--ips "${text}" is no address, with or without a prefix length`);
  }
  return text;
}

function invalid(message: string): never {
  throw new TortieError("option-invalid", message);
}
