/** One call of one plugin of a chain, and its failure told with its place in the chain. */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { ForeignCniError, messageOf, TortieError } from "../../errors/errors.ts";
import type { JsonObject, JsonValue } from "../../json/value.ts";
import type { CniCommand, ValidAttachment } from "../protocol.ts";
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

/** A plugin of the chain said no, or could not be run. */
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

/** Longest interface name: IFNAMSIZ less the terminating zero (include/uapi/linux/if.h). */
const MAX_INTERFACE_NAME = 15;

/** A name is one that `ip netns` keeps below /run/netns; anything with a slash is a path. */
export function netnsPath(netns: string): string {
  return netns.includes("/") ? resolve(netns) : `/run/netns/${netns}`;
}

/**
 * Container id of a namespace that got none: 64 hex digits, as container runtimes use. The same namespace has the same id in every
 * call, so ADD and DEL agree without an option. A plain container's host end is named after the first eleven characters of its id
 * (C§4.1), so these must differ between containers: no word stands before the digits.
 */
export function defaultContainerId(netns: string): string {
  return createHash("sha256").update(netns).digest("hex");
}

/** Whether the sandbox still exists; runtimes leave CNI_NETNS empty at the DEL of one that does not. */
export function sandboxExists(netns: string): boolean {
  return netns !== "" && existsSync(netns);
}

/**
 * Checks what goes into the plugins' environment, by the rules of the specification.
 * @throws TortieError `option-invalid`
 */
export function checkAttachment(attachment: Attachment): Attachment {
  const { containerId, interfaceName, args } = attachment;
  if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(containerId)) {
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

function invalid(message: string): never {
  throw new TortieError("option-invalid", message);
}

/**
 * The standard input of one plugin of a chain: its own entry and what the runtime adds (CNI specification, section 3, Deriving execution
 * configuration). Of one attachment: `capabilities` is replaced by the arguments of those that are declared.
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

/** Of the network as a whole: STATUS. */
export function networkNetconf(list: Conflist, plugin: PluginConf): JsonObject {
  const { capabilities: _replaced, ...entry } = plugin.netconf;
  return { ...entry, name: list.name, cniVersion: list.cniVersion };
}

/** Of GC: with the attachments that are still alive. */
export function gcNetconf(list: Conflist, plugin: PluginConf, valid: readonly ValidAttachment[]): JsonObject {
  const attachments: JsonValue = valid.map(({ containerID, ifname }) => ({ containerID, ifname }));
  return { ...networkNetconf(list, plugin), "cni.dev/valid-attachments": attachments };
}

/** Names of given capability arguments that no plugin of the chain declares, so that no plugin would receive them. */
export function undeclaredCapabilities(list: Conflist, capabilityArgs: JsonObject | undefined): readonly string[] {
  return Object.keys(capabilityArgs ?? {}).filter((name) => !list.plugins.some((plugin) => plugin.capabilities.has(name)));
}
