/** A network configuration list, judged by the code that reads it in earnest: as a runtime, as the plugin before an ADD, and as a chain. */

import { runPlugin } from "../../lib/cni/delegate.ts";
import { findPlugin } from "../../lib/cni/find-plugin.ts";
import { CNI_VERSIONS } from "../../lib/cni/protocol.ts";
import { type Conflist, type PluginConf, readConflist } from "../../lib/cni/runtime/conflist.ts";
import { networkNetconf } from "../../lib/cni/runtime/plugin-netconf.ts";
import { checkForAdd } from "../../lib/config/add-checks.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { unknownKeys } from "../../lib/config/unknown-keys.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { field, isText, listOf, parseObject } from "../../lib/json/decode.ts";
import { type Position, positionsOf } from "../../lib/json/positions.ts";
import type { FileFinding } from "./finding.ts";

const OURS = new Set(["tortie", "calico"]);
/** The host's own plugins answer VERSION in milliseconds. */
const VERSION_TIMEOUT_MS = 10_000;

/** @param pluginPath folders of plugins joined by ":"; `undefined`: plugins are not asked for their versions */
export async function validateConflist(file: string, pluginPath: string | undefined): Promise<readonly FileFinding[]> {
  let list: Conflist;
  try {
    list = readConflist(file);
  } catch (error) {
    return [{ file, position: undefined, severity: "error", subject: "list", message: withoutFile(file, messageOf(error)) }];
  }
  const positions = positionsOf(list.text);
  const isSingle = !positions.has("plugins");
  const found: FileFinding[] = [];
  for (const [index, plugin] of list.plugins.entries()) {
    const prefix = isSingle ? "" : `plugins[${index}]`;
    const inFile = isSingle || positions.has(prefix);
    const at = (path: string): Pick<FileFinding, "file" | "position" | "subject"> => {
      const whole = prefix === "" ? path : path === "" ? prefix : `${prefix}.${path}`;
      return { file, position: inFile ? positions.get(whole) : undefined, subject: whole || plugin.type };
    };
    if (OURS.has(plugin.type)) {
      const keys = [...positions.keys()].flatMap((key) =>
        prefix === "" ? key : key.startsWith(`${prefix}.`) ? key.slice(prefix.length + 1) : [],
      );
      found.push(...ownFindings(list, plugin, keys, at));
    }
    if (pluginPath !== undefined) found.push(...(await versionFindings(list, plugin, pluginPath, at("type"))));
  }
  return found.toSorted((a, b) => order(a.position, b.position));
}

function ownFindings(
  list: Conflist,
  plugin: PluginConf,
  keys: readonly string[],
  at: (path: string) => Pick<FileFinding, "file" | "position" | "subject">,
): readonly FileFinding[] {
  const found: FileFinding[] = unknownKeys(plugin.netconf).map(({ path, suggestion }) => ({
    ...at(path),
    severity: "warning",
    message: `no key of this name is known, it has no effect${suggestion === undefined ? "" : `; did you mean "${suggestion}"?`}`,
  }));
  try {
    const config = decodeNetworkConfig(networkNetconf(list, plugin));
    checkForAdd(config, chooseDatastore(config, {}));
  } catch (error) {
    const message = messageOf(error);
    found.push({ ...at(keyNamedIn(message, keys)), severity: "error", message });
  }
  return found;
}

/** The longest key that a message names; none comes to the whole plugin. */
function keyNamedIn(message: string, keys: readonly string[]): string {
  const words = new Set(message.split(/[\s,;:"]+/));
  return keys.filter((key) => words.has(key)).toSorted((a, b) => b.length - a.length)[0] ?? "";
}

/** A chain runs in one version: every plugin of it must know that one (CNI 1.1.0, section 4). */
async function versionFindings(
  list: Conflist,
  { type }: PluginConf,
  pluginPath: string,
  at: Pick<FileFinding, "file" | "position" | "subject">,
): Promise<readonly FileFinding[]> {
  try {
    const executable = findPlugin(type, pluginPath);
    const stdin = Buffer.from(JSON.stringify({ cniVersion: list.cniVersion }));
    const env = { PATH: process.env.PATH ?? "", CNI_COMMAND: "VERSION", CNI_PATH: pluginPath };
    const { stdout } = await runPlugin(executable, { stdin, env, timeoutMs: VERSION_TIMEOUT_MS });
    const versions = field(parseObject(new TextDecoder().decode(stdout)), "supportedVersions", listOf(isText));
    if (versions.includes(list.cniVersion)) return [];
    const common = CNI_VERSIONS.findLast((version) => versions.includes(version));
    const hint = common === undefined ? "" : `; the newest that both know is ${common}`;
    const message = `the list has cniVersion ${list.cniVersion}, and ${executable} knows ${versions.join(", ")}${hint}`;
    return [{ ...at, severity: "error", message }];
  } catch (error) {
    return [{ ...at, severity: "warning", message: `its versions cannot be asked for: ${messageOf(error)}` }];
  }
}

function withoutFile(file: string, message: string): string {
  return message.startsWith(`${file}: `) ? message.slice(file.length + 2) : message;
}

function order(a: Position | undefined, b: Position | undefined): number {
  return (a?.line ?? 0) - (b?.line ?? 0) || (a?.column ?? 0) - (b?.column ?? 0);
}
