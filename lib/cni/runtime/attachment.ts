/** Which attachment the operator means: the parameters that a runtime gives to every plugin of the chain (CNI specification, section 2). */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { TortieError } from "../../errors/errors.ts";
import type { JsonObject } from "../../json/value.ts";

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
