/**
 * Whether what stands at a path of the installation still is the installation's. A cluster may have moved to Calico since, whose installer
 * uses the same names: its files must outlive ours.
 */
import { basename } from "node:path";
import { parseJson } from "../lib/json/parse.ts";
import { isJsonObject } from "../lib/json/value.ts";
import { isThere, readText } from "../lib/system/files.ts";
import { isOwnKubeconfig } from "./kubeconfig.ts";
import { fingerprintOf, type InstallRecord } from "./record.ts";
import { isKubeconfigName } from "./settings.ts";

/** @throws SystemError when a file that is there cannot be read */
export function isStillOurs(path: string, { installed, conflist }: Pick<InstallRecord, "installed" | "conflist">): boolean {
  if (!isThere(path)) return true;
  if (isKubeconfigName(basename(path))) return isOwnKubeconfig(readText(path));
  if (isConflist(path)) return conflist === undefined || isListOfOurs(readText(path), conflist);
  const fingerprint = installed[path];
  return fingerprint === undefined || fingerprint === fingerprintOf(path);
}

/** libcni reads these (libcni/conf.go, ConfFiles). */
export function isConflist(path: string): boolean {
  return /\.(conf|conflist|json)$/.test(path);
}

/** Others may have edited the list: what tells it is the main plugin. One that cannot be read is nobody else's. */
function isListOfOurs(text: string, installed: string): boolean {
  const [main] = typesOf(installed) ?? [];
  const types = typesOf(text);
  return main === undefined || types === undefined || types.includes(main);
}

function typesOf(text: string): readonly string[] | undefined {
  try {
    const list = parseJson(text);
    if (!isJsonObject(list)) return undefined;
    const plugins = Array.isArray(list.plugins) ? list.plugins : [list];
    return plugins.flatMap((plugin) => (isJsonObject(plugin) && typeof plugin.type === "string" ? plugin.type : []));
  } catch {
    return undefined;
  }
}
