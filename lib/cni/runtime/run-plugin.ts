/** Plugins as processes, called the way libcni calls them: the runtime's own environment and CNI_* over it. */
import { dirname } from "node:path";
import { parseJson } from "../../json/parse.ts";
import { stringifyJson } from "../../json/stringify.ts";
import { isJsonObject, type JsonObject } from "../../json/value.ts";
import { runDelegate } from "../delegate.ts";
import type { Environment } from "../environment.ts";
import { findPlugin } from "../find-plugin.ts";
import type { Attachment } from "./attachment.ts";
import type { PluginRunner } from "./plugin-call.ts";

export interface RunnerSettings {
  /** Folders of plugins joined by ":". */
  readonly pluginPath: string;
  readonly timeoutSeconds: number;
  /** What the plugins inherit: portmap needs PATH to find iptables. */
  readonly env: Environment;
}

/** $CNI_PATH, else the folder of this executable (its other names are plugins) and where Kubernetes and Debian keep plugins. */
export function defaultPluginPath(env: Environment): string {
  const given = env.CNI_PATH ?? "";
  return given === "" ? `${dirname(process.execPath)}:/opt/cni/bin:/usr/lib/cni` : given;
}

export function pluginRunner(settings: RunnerSettings): PluginRunner {
  return async (type, command, attachment, netconf) => {
    const executable = findPlugin(type, settings.pluginPath);
    const env = { ...inherited(settings.env), ...attachmentVariables(attachment), CNI_PATH: settings.pluginPath };
    const stdin = Buffer.from(stringifyJson(netconf));
    return printedObject(await runDelegate(executable, { command, stdin, env, timeoutMs: settings.timeoutSeconds * 1000 }));
  };
}

/** The variables that the specification gives a meaning. */
const PARAMETERS = ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH"];

/** Our own CNI variables are removed: a parameter that this call omits must not be inherited. */
function inherited(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !PARAMETERS.includes(name)));
}

function attachmentVariables(attachment: Attachment | undefined): Environment {
  if (attachment === undefined) return {};
  const { containerId, netns, interfaceName, args = "" } = attachment;
  return { CNI_CONTAINERID: containerId, CNI_NETNS: netns, CNI_IFNAME: interfaceName, CNI_ARGS: args };
}

/** Only ADD has something to say; what other operations print is not looked at. */
function printedObject(stdout: Uint8Array): JsonObject | undefined {
  try {
    const value = parseJson(stdout);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
