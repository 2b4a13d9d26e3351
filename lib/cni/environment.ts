/** The CNI_* variables of one call: which an operation needs, and what they may hold (I§1.2, C§1.3). */

import { TortieError } from "../errors/errors.ts";
import type { CniCommand } from "./protocol.ts";
import { type Environment, isNeeded, missingVariables } from "./variables.ts";

export type { Environment } from "./variables.ts";
export { commandOf } from "./variables.ts";

interface CniEnvironment {
  readonly containerId: string;
  readonly netns: string;
  readonly interfaceName: string;
  readonly args: string;
  readonly path: string;
  readonly netnsOverride: boolean;
}

/** Longest interface name in bytes: IFNAMSIZ less the terminating zero (include/uapi/linux/if.h). */
const MAX_INTERFACE_NAME = 15;

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

/** The characters of container ids and network names (CNI specification; I§1.2). */
export function isCniName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_.-]*$/.test(text);
}

function checkContainerId(containerId: string): void {
  if (!isCniName(containerId)) throw new TortieError("environment-invalid", "invalid characters in containerID", { details: containerId });
}

/** What the kernel accepts as the name of a link (net/core/dev.c, dev_valid_name). */
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
