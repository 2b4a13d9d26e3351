/**
 * Reads a network configuration list as a runtime does (CNI specification, section 1): which plugins, in which order, in which version.
 * A file that holds a single plugin's configuration is a list of one.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { KeyError, messageOf, TortieError } from "../../errors/errors.ts";
import { parseJson } from "../../json/parse.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../json/value.ts";
import { ifReadable } from "../../system/files.ts";
import { CNI_VERSIONS, type CniVersion } from "../protocol.ts";
import { isCniName } from "../request.ts";

/** One entry of `plugins`. */
export interface PluginConf {
  readonly type: string;
  /** Names under `capabilities` whose value is true. */
  readonly capabilities: ReadonlySet<string>;
  /** The entry as written. */
  readonly netconf: JsonObject;
}

export interface Conflist {
  readonly file: string;
  /** The file's text: a runtime keeps it beside the cached result. */
  readonly text: string;
  readonly name: string;
  readonly cniVersion: CniVersion;
  readonly disableCheck: boolean;
  readonly disableGc: boolean;
  /** In chain order, never empty. */
  readonly plugins: readonly PluginConf[];
}

/**
 * Form in which runtimes read a file, by the ending of its name; `undefined` for one that they do not read (libcni/conf.go, ConfFiles,
 * ConfListFromFile and ConfFromFile, as go-cni's loadFromConfDir and ocicni's loadNetworks call them).
 */
export function formOf(path: string): "list" | "plugin" | undefined {
  if (path.endsWith(".conflist")) return "list";
  return /\.(conf|json)$/.test(path) ? "plugin" : undefined;
}

/** @throws KeyError `conflist-invalid` when runtimes refuse the file because it holds the other form */
function assertForm(file: string, config: JsonObject): void {
  const [form, isList, isPlugin] = [formOf(file), config.plugins !== undefined, typeof config.type === "string" && config.type !== ""];
  if (form === "plugin" && isList && !isPlugin) {
    const next = "give the file a name that ends with .conflist";
    throw new KeyError("conflist-invalid", `${file}: holds a list of plugins, which runtimes read from a .conflist alone`, "", { next });
  }
  if (form === "list" && !isList && isPlugin) {
    const next = 'put the plugin into a list ("plugins": […]), or give the file a name that ends with .conf';
    throw new KeyError("conflist-invalid", `${file}: holds one plugin, which runtimes read from a .conf or .json alone`, "", { next });
  }
}

/**
 * @param text of the file, where it is not there yet
 * @returns the error for which every runtime refuses the file, if any: no JSON, or the other form. Its values are not judged
 */
export function whyRefused(file: string, text?: string): TortieError | undefined {
  try {
    assertForm(file, parseObject(file, text ?? readText(file)));
    return undefined;
  } catch (error) {
    if (error instanceof TortieError) return error;
    throw error;
  }
}

/**
 * Reads and checks a list.
 * @throws TortieError `conflist-unreadable`, `conflist-invalid`
 */
export function readConflist(file: string): Conflist {
  return parseConflist(file, readText(file));
}

/**
 * Checks a list's text.
 * @param file for messages; plugins of the folder that is named after the network are looked for beside it
 * @throws KeyError `conflist-invalid`; TortieError `conflist-unreadable` for a file of that folder
 */
export function parseConflist(file: string, text: string): Conflist {
  const config = parseObject(file, text);
  assertForm(file, config);
  const isPlugin = formOf(file) === "plugin" || (config.plugins === undefined && config.type !== undefined);
  const name = networkName(file, config);
  const plugins = isPlugin ? [pluginConf(file, "", config)] : pluginsOf(file, name, config);
  return {
    file,
    text,
    name,
    cniVersion: chooseVersion(file, config),
    disableCheck: flag(file, config, "disableCheck"),
    disableGc: flag(file, config, "disableGC"),
    plugins,
  };
}

/** Finds the highest version both sides know of `cniVersions` and `cniVersion` (CNI 1.1.0, Version considerations); neither means 0.1.0. */
function chooseVersion(file: string, config: JsonObject): CniVersion {
  const offered = [...strings(file, config, "cniVersions"), ...strings(file, config, "cniVersion")];
  if (offered.length === 0) return "0.1.0";
  const chosen = CNI_VERSIONS.findLast((version) => offered.includes(version));
  if (chosen === undefined)
    invalid(file, `no version of "${offered.join('", "')}" is known: one of ${CNI_VERSIONS.join(", ")} is needed`, "cniVersion");
  return chosen;
}

function networkName(file: string, config: JsonObject): string {
  const name = config.name;
  if (typeof name !== "string" || name === "") invalid(file, "name: the network's name is missing", "name");
  if (!isCniName(name)) {
    invalid(file, `name: "${name}" must start with a letter or digit and hold only letters, digits, "_", "." and "-"`, "name");
  }
  return name;
}

/**
 * Lists inlined plugins first, then those of the folder that is named after the network, beside the list (CNI 1.1.0,
 * loadOnlyInlinedPlugins).
 */
function pluginsOf(file: string, network: string, config: JsonObject): PluginConf[] {
  const inlinedOnly = flag(file, config, "loadOnlyInlinedPlugins");
  const inlined = config.plugins ?? [];
  if (!Array.isArray(inlined)) invalid(file, "plugins: a list is wanted", "plugins");
  if (inlinedOnly && config.plugins === undefined) invalid(file, "plugins: missing, although loadOnlyInlinedPlugins is true", "plugins");
  const plugins = inlined.map((entry: JsonValue, index: number) => {
    if (!isJsonObject(entry)) invalid(file, `plugins[${index}]: an object is wanted`, `plugins[${index}]`);
    return pluginConf(file, `plugins[${index}].`, entry);
  });
  if (!inlinedOnly) plugins.push(...besidePlugins(join(dirname(file), network)));
  if (plugins.length === 0) invalid(file, "plugins: the list is empty", "plugins");
  return plugins;
}

function besidePlugins(folder: string): PluginConf[] {
  const names = ifReadable(() => readdirSync(folder)) ?? []; // none: most networks have no such folder
  const files = names
    .filter((name) => name.endsWith(".conf"))
    .sort()
    .map((name) => join(folder, name));
  return files.map((file) => pluginConf(file, "", parseObject(file, readText(file))));
}

function pluginConf(file: string, path: string, netconf: JsonObject): PluginConf {
  const { type, capabilities } = netconf;
  if (typeof type !== "string" || type === "") invalid(file, `${path}type: the plugin's name is missing`, `${path}type`);
  if (type.includes("/")) invalid(file, `${path}type: "${type}" must be a file name without "/"`, `${path}type`);
  if (capabilities === undefined || capabilities === null) return { type, capabilities: new Set(), netconf };
  if (!isJsonObject(capabilities)) invalid(file, `${path}capabilities: an object is wanted`, `${path}capabilities`);
  const declared = Object.entries(capabilities).filter(([name, value]) => {
    if (typeof value !== "boolean") invalid(file, `${path}capabilities.${name}: true or false is wanted`, `${path}capabilities.${name}`);
    return value;
  });
  return { type, capabilities: new Set(declared.map(([name]) => name)), netconf };
}

/** Booleans may be written as the words "true" and "false", in letters of any case (libcni, readBool of NetworkConfFromBytes). */
function flag(file: string, config: JsonObject, key: string): boolean {
  const value = config[key] === undefined ? false : config[key];
  if (typeof value === "boolean") return value;
  const word = typeof value === "string" ? value.toLowerCase() : "";
  if (word === "true" || word === "false") return word === "true";
  return invalid(file, `${key}: true or false is wanted`, key);
}

function strings(file: string, config: JsonObject, key: string): readonly string[] {
  const value = config[key];
  if (value === undefined || value === "") return [];
  const list = Array.isArray(value) ? value : [value];
  return list.map((entry: JsonValue) => (typeof entry === "string" ? entry : invalid(file, `${key}: only text is allowed`, key)));
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new TortieError("conflist-unreadable", `${file} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function parseObject(file: string, text: string): JsonObject {
  let value: JsonValue;
  try {
    value = parseJson(text);
  } catch (error) {
    const next = "correct the text just before that place: often a comma is missing or one too many";
    throw new KeyError("conflist-invalid", `${file}: not JSON: ${messageOf(error)}`, "", { next });
  }
  return isJsonObject(value) ? value : invalid(file, "a JSON object is wanted");
}

/** @param path the key at fault; empty: the text as a whole */
function invalid(file: string, problem: string, path = ""): never {
  throw new KeyError("conflist-invalid", `${file}: ${problem}`, path);
}
