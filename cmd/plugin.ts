/**
 * What both CNI plugins do first (C§0.1, I§1.2): VERSION, and a person's call without any, are answered here and need nothing of the
 * plugin; any other call loads what serves it.
 */

import { CNI_VERSIONS, type CniRequest, renderVersions } from "../lib/cni/protocol.ts";
import type { Environment } from "../lib/cni/variables.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { Logger } from "../lib/log/logger.ts";
import { refusedVariables } from "../lib/system/refused-variables.ts";
import { print, printError } from "./output.ts";
import { VERSION } from "./version.ts";

export interface Plugin {
  readonly name: string;
  /**
   * Serves one request; ADD returns its result as it is to be printed, the other verbs nothing.
   * @param signal aborts when the process shall end: an ADD takes back what it has made
   */
  serve(request: CniRequest, config: NetworkConfig, log: Logger, signal: AbortSignal): Promise<string | undefined>;
}

/** @param readStdin absent: from the process's own @returns the exit status */
export async function runPlugin(plugin: Plugin, env: Environment, readStdin?: () => Uint8Array): Promise<number> {
  const command = env.CNI_COMMAND ?? "";
  if (refusedVariables(env).length === 0) {
    if (command === "") {
      printError(about(plugin.name));
      return 0;
    }
    if (command === "VERSION") return printVersions();
  }
  const { serveCall } = await import("./serve-call.ts");
  return serveCall(plugin, env, readStdin);
}

/** @returns the exit status */
function printVersions(): number {
  try {
    print(renderVersions());
    return 0;
  } catch (cause) {
    printError(`cannot write to standard output: ${String(cause)}\n`);
    return 1;
  }
}

/** What a person sees who runs a plugin by hand, without CNI_COMMAND (I§1.1). */
function about(name: string): string {
  return `${name} ${VERSION}: a CNI plugin, to be called by a container runtime\nCNI protocol versions supported: ${CNI_VERSIONS.join(", ")}\n`;
}
