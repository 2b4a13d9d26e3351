/**
 * A conflist that others have edited since it was installed: what they changed stays, what the installer changes comes in. A three-way
 * merge of the text that was installed last (base), the file as it is (theirs), and the text to install (ours). Where both changed one
 * key, the installer's value counts: the file is its own.
 */
import { parseJson } from "../lib/json/parse.ts";
import { stringifyJson } from "../lib/json/stringify.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../lib/json/value.ts";

export interface Merge {
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

/** By type, which a chain has once: others' plugins stay behind the one they stood behind. */
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
