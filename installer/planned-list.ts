/**
 * The conflist as it will be: the template's text, merged with what others have made of the file. A list that this installer has not written
 * and that already has Tortie's main plugin is somebody's working network: where it names another network, store or way to addresses than
 * the built-in template, it stays, since its pods could neither be added nor deleted with the template's (--force replaces it).
 */
import { join } from "node:path";
import { parseJson } from "../lib/json/parse.ts";
import { stringifyJson } from "../lib/json/stringify.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../lib/json/value.ts";
import { isThere, readText } from "../lib/system/files.ts";
import { type Merge, mergeConflists } from "./merge.ts";
import { readRecord } from "./record.ts";
import type { InstallSettings } from "./settings.ts";

type Places = Pick<InstallSettings, "netDir" | "confName" | "keepsLists">;

export interface PlannedList extends Merge {
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

/** Keys of the main plugin that say where its objects and addresses are. */
const WHERE = ["datastore_type", "datastore_path", "etcd_endpoints", "ipam"];

/** One sentence for each difference in what the pods of a list depend on; none where `theirs` has no main plugin of ours. */
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

/** @returns the list and its main plugin, by its own name or Calico's; `undefined` where there is none */
export function listOf(text: string): { readonly list: JsonObject; readonly main: JsonObject } | undefined {
  let list: JsonValue;
  try {
    list = parseJson(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(list)) return undefined;
  const plugins: readonly JsonValue[] = Array.isArray(list.plugins) ? list.plugins : [];
  const main = plugins.filter(isJsonObject).find(({ type }) => type === "tortie" || type === "calico");
  return main === undefined ? undefined : { list, main };
}
