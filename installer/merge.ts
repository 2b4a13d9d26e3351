/**
 * Makes the conflist as it will be: the template's text, merged with what others have made of the file. What they changed stays, what the
 * installer changes comes in: a three-way merge of the text that was installed last (base), the file as it is (theirs), and the text to
 * install (ours). Where both changed one key, the installer's value counts: the file is its own.
 *
 * A list that this installer has not written and that already has Tortie's main plugin is somebody's working network: where it names
 * another network, store or way to addresses than the built-in template, it stays, since its pods could neither be added nor deleted with
 * the template's (--force replaces it).
 */
import { join } from "node:path";
import { parseJson } from "../lib/json/parse.ts";
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from "../lib/json/value.ts";
import { isThere, readText } from "../lib/system/files.ts";
import { readRecord } from "./record.ts";
import type { InstallSettings } from "./settings.ts";

interface Merge {
  readonly text: string;
  /** One sentence for each thing of the others' that was kept or given up. */
  readonly remarks: readonly string[];
}

/**
 * @param base `undefined` when it is not known: then plugins of others stay, and nothing else
 * @param theirs text that may be no JSON at all; it is then replaced
 */
export function mergeConflists(base: string | undefined, theirs: string, ours: string): Merge {
  if (theirs === ours || theirs === base) return { text: ours, remarks: [] };
  const [was, is, becomes] = [base === undefined ? undefined : objectOf(base), objectOf(theirs), objectOf(ours)];
  if (becomes === undefined) return { text: ours, remarks: [] };
  if (is === undefined) return { text: ours, remarks: ["the file was no JSON object and is replaced"] };
  const remarks: string[] = [];
  const merged = mergeObjects(was ?? becomes, is, becomes, "", remarks, base === undefined);
  if (remarks.length === 0) return { text: ours, remarks };
  return { text: `${stringifyJson(merged, 2)}\n`, remarks };
}

function mergeObjects(
  base: JsonObject,
  theirs: JsonObject,
  ours: JsonObject,
  place: string,
  remarks: string[],
  onlyPlugins: boolean,
): JsonObject {
  const merged: Record<string, JsonValue> = {};
  for (const key of new Set([...Object.keys(ours), ...Object.keys(theirs)])) {
    const at = place === "" ? key : `${place}.${key}`;
    const value = mergeValues(base[key], theirs[key], ours[key], at, remarks, onlyPlugins);
    if (value !== undefined) merged[key] = value;
  }
  return merged;
}

function mergeValues(
  base: JsonValue | undefined,
  theirs: JsonValue | undefined,
  ours: JsonValue | undefined,
  place: string,
  remarks: string[],
  onlyPlugins: boolean,
): JsonValue | undefined {
  if (place === "plugins" && Array.isArray(theirs) && Array.isArray(ours)) {
    return mergePlugins(Array.isArray(base) ? base : [], theirs, ours, remarks, onlyPlugins);
  }
  if (areSame(theirs, ours)) return ours;
  if (onlyPlugins) return ours;
  if (isJsonObject(theirs) && isJsonObject(ours)) {
    return mergeObjects(isJsonObject(base) ? base : {}, theirs, ours, place, remarks, onlyPlugins);
  }
  if (areSame(theirs, base)) return ours;
  if (areSame(ours, base)) {
    remarks.push(theirs === undefined ? `${place} stays removed` : `${place} keeps the value that somebody else gave it`);
    return theirs;
  }
  remarks.push(`${place} was changed by somebody else and is replaced`);
  return ours;
}

/** Merges plugins by type, which a chain has once: others' plugins stay behind the one they stood behind. */
function mergePlugins(
  base: readonly JsonValue[],
  theirs: readonly JsonValue[],
  ours: readonly JsonValue[],
  remarks: string[],
  onlyPlugins: boolean,
): readonly JsonValue[] {
  const merged: JsonValue[] = [];
  for (const plugin of ours) {
    const type = typeOf(plugin);
    const [was, is] = [find(base, type), find(theirs, type)];
    if (is === undefined && was !== undefined && !onlyPlugins) {
      remarks.push(`plugin ${type} stays removed`);
      continue;
    }
    merged.push(is === undefined ? plugin : (mergeValues(was, is, plugin, type, remarks, onlyPlugins) ?? plugin));
  }
  theirs.forEach((plugin, index) => {
    const type = typeOf(plugin);
    if (find(ours, type) !== undefined) return;
    if (find(base, type) !== undefined) return;
    remarks.push(`plugin ${type}, which somebody else added, stays`);
    const before = index === 0 ? undefined : typeOf(theirs[index - 1] ?? null);
    const position = merged.findIndex((one) => typeOf(one) === before);
    merged.splice(position < 0 ? (index === 0 ? 0 : merged.length) : position + 1, 0, plugin);
  });
  return merged;
}

function find(plugins: readonly JsonValue[], type: string): JsonValue | undefined {
  return plugins.find((plugin) => typeOf(plugin) === type);
}

/** Calico's name for the main plugin and ours are one: a chain with both would attach a pod twice. */
function typeOf(plugin: JsonValue): string {
  const type = isJsonObject(plugin) ? plugin.type : undefined;
  if (type === "calico") return "tortie";
  return typeof type === "string" ? type : "";
}

function areSame(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return stringifyJson(one) === stringifyJson(other);
}

function objectOf(text: string): JsonObject | undefined {
  try {
    const value = parseJson(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

type Places = Pick<InstallSettings, "netDir" | "confName" | "keepsLists">;

interface PlannedList extends Merge {
  /** The file that is there stays, and is not the installation's. */
  readonly isKept: boolean;
}

/** @param ours the template's text @throws SystemError when the file that is there cannot be read */
export function plannedList({ netDir, confName, keepsLists }: Places, ours: string): PlannedList {
  const path = join(netDir, confName);
  if (!isThere(path)) return { text: ours, remarks: [], isKept: false };
  const theirs = readText(path);
  const { conflist: base } = readRecord(netDir);
  if (base !== undefined || !keepsLists) return { ...mergeConflists(base, theirs, ours), isKept: false };
  const differences = differencesOf(theirs, ours);
  if (differences.length === 0) return { ...mergeConflists(undefined, theirs, ours), isKept: false };
  const remark = "stays as it is: it was not written by this installer, whose list is for another network (--force replaces it)";
  return { text: theirs, remarks: [remark, ...differences], isKept: true };
}

/** Lists keys of the main plugin that say where its objects and addresses are. */
const WHERE = ["datastore_type", "datastore_path", "etcd_endpoints", "ipam"];

/** Says in one sentence each difference in what the pods of a list depend on; none where `theirs` has no main plugin of ours. */
function differencesOf(theirs: string, ours: string): readonly string[] {
  const [is, becomes] = [listOf(theirs), listOf(ours)];
  if (is === undefined || becomes === undefined) return [];
  const names = differs("name", is.list.name, becomes.list.name);
  return [...names, ...WHERE.flatMap((key) => differs(key, is.main[key], becomes.main[key]))];
}

function differs(key: string, theirs: JsonValue | undefined, ours: JsonValue | undefined): readonly string[] {
  const [is, becomes] = [theirs, ours].map((value) => (value === undefined ? "not set" : stringifyJson(value)));
  return is === becomes ? [] : [`${key} is ${is}; the installer's would be ${becomes}`];
}

/** @returns the list and its main plugin, by its own name or Calico's; `undefined` without one */
export function listOf(text: string): { readonly list: JsonObject; readonly main: JsonObject } | undefined {
  const list = objectOf(text);
  if (list === undefined) return undefined;
  const plugins: readonly JsonValue[] = Array.isArray(list.plugins) ? list.plugins : [];
  const main = plugins.filter(isJsonObject).find(({ type }) => type === "tortie" || type === "calico");
  return main === undefined ? undefined : { list, main };
}
